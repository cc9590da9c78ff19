"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<5x4xf32>, tensor<2x10xf32>, tensor<4x1x5xf32>, tensor<4x2x5xf32>, tensor<3x4x5xf32>, tensor<20xf32>, tensor<4x5xf32>, tensor<4x5x1xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}, {jax.result_info = "result[7]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4x5xf32>):
    %0 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 1, 0>}> : (tensor<4x5xf32>) -> tensor<5x4xf32>
    %1 = "stablehlo.reshape"(%arg0) : (tensor<4x5xf32>) -> tensor<2x10xf32>
    %2 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %3 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 0, 1, 3>}> : (tensor<4x1x5xf32>) -> tensor<4x1x2x5xf32>
    %5 = "stablehlo.reshape"(%4) : (tensor<4x1x2x5xf32>) -> tensor<4x2x5xf32>
    %6 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<4x5xf32>) -> tensor<3x4x5xf32>
    %7 = "stablehlo.reshape"(%arg0) : (tensor<4x5xf32>) -> tensor<20xf32>
    %8 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<4x5xf32>) -> tensor<1x4x5xf32>
    %9 = "stablehlo.reshape"(%8) : (tensor<1x4x5xf32>) -> tensor<4x5xf32>
    %10 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<4x5xf32>) -> tensor<1x4x5xf32>
    %11 = "stablehlo.transpose"(%10) <{permutation = array<i64: 1, 2, 0>}> : (tensor<1x4x5xf32>) -> tensor<4x5x1xf32>
    "func.return"(%0, %1, %2, %5, %6, %7, %9, %11) : (tensor<5x4xf32>, tensor<2x10xf32>, tensor<4x1x5xf32>, tensor<4x2x5xf32>, tensor<3x4x5xf32>, tensor<20xf32>, tensor<4x5xf32>, tensor<4x5x1xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
