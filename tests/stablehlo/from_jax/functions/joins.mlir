"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<4x5xf32>) -> (tensor<8x5xf32>, tensor<4x2x5xf32>, tensor<8x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg2: tensor<4x5xf32>, %arg3: tensor<4x5xf32>):
    %4 = "stablehlo.concatenate"(%arg2, %arg3) <{dimension = 0 : i64}> : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
    %5 = "stablehlo.broadcast_in_dim"(%arg2) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %6 = "stablehlo.broadcast_in_dim"(%arg3) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<4x5xf32>) -> tensor<4x1x5xf32>
    %7 = "stablehlo.concatenate"(%5, %6) <{dimension = 1 : i64}> : (tensor<4x1x5xf32>, tensor<4x1x5xf32>) -> tensor<4x2x5xf32>
    %8 = "stablehlo.reshape"(%arg2) : (tensor<4x5xf32>) -> tensor<1x4x1x5xf32>
    %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x4x1x5xf32>) -> tensor<2x4x1x5xf32>
    %10 = "stablehlo.reshape"(%9) : (tensor<2x4x1x5xf32>) -> tensor<8x5xf32>
    %11 = "func.call"(%arg2) <{callee = @_roll_static}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %12 = "func.call"(%arg2) <{callee = @_flip}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%4, %7, %10, %11, %12) : (tensor<8x5xf32>, tensor<4x2x5xf32>, tensor<8x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "_roll_static", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<4x5xf32>):
    %1 = "stablehlo.slice"(%arg1) <{limit_indices = array<i64: 4, 5>, start_indices = array<i64: 0, 3>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<4x2xf32>
    %2 = "stablehlo.slice"(%arg1) <{limit_indices = array<i64: 4, 3>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<4x3xf32>
    %3 = "stablehlo.concatenate"(%1, %2) <{dimension = 1 : i64}> : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>
    "func.return"(%3) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "_flip", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x5xf32>):
    %0 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 0>}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%0) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
