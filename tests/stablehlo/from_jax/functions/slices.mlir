"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<2x5xf32>, tensor<4x3xf32>, tensor<4x5xf32>, tensor<5xf32>, tensor<4x2xf32>, tensor<f32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4x5xf32>):
    %0 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 3, 5>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<2x5xf32>
    %1 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 4, 5>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 2>}> : (tensor<4x5xf32>) -> tensor<4x3xf32>
    %2 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 0>}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %3 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 4, 5>, start_indices = array<i64: 3, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x5xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<1x5xf32>) -> tensor<5xf32>
    %5 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 4, 4>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 2>}> : (tensor<4x5xf32>) -> tensor<4x2xf32>
    %6 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 3, 4>, start_indices = array<i64: 2, 3>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x1xf32>
    %7 = "stablehlo.reshape"(%6) : (tensor<1x1xf32>) -> tensor<f32>
    "func.return"(%0, %1, %2, %4, %5, %7) : (tensor<2x5xf32>, tensor<4x3xf32>, tensor<4x5xf32>, tensor<5xf32>, tensor<4x2xf32>, tensor<f32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
