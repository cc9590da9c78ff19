"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<5xf32>, tensor<4x5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg10: tensor<4x5xf32>):
    %18 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %20 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %22 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %23:5 = "stablehlo.while"(%arg10, %arg10, %22, %19, %21) ({
    ^bb0(%arg16: tensor<4x5xf32>, %arg17: tensor<4x5xf32>, %arg18: tensor<i32>, %arg19: tensor<5xf32>, %arg20: tensor<4x5xf32>):
      %29 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %30 = "stablehlo.compare"(%arg18, %29) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%30) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg11: tensor<4x5xf32>, %arg12: tensor<4x5xf32>, %arg13: tensor<i32>, %arg14: tensor<5xf32>, %arg15: tensor<4x5xf32>):
      %24 = "func.call"(%arg11, %arg13) <{callee = @dynamic_index_in_dim}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>
      %25:2 = "func.call"(%arg12, %arg14, %24) <{callee = @closed_call}> : (tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
      %26 = "func.call"(%arg15, %25#1, %arg13) <{callee = @dynamic_update_index_in_dim}> : (tensor<4x5xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4x5xf32>
      %27 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %28 = "stablehlo.add"(%arg13, %27) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg11, %arg12, %28, %25#0, %26) : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>) -> ()
    }) : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>)
    "func.return"(%23#3, %23#4) : (tensor<5xf32>, tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<4x5xf32>, %arg9: tensor<i32>):
    %15 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %16 = "stablehlo.dynamic_slice"(%arg8, %arg9, %15) <{slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>
    %17 = "stablehlo.reshape"(%16) : (tensor<1x5xf32>) -> tensor<5xf32>
    "func.return"(%17) : (tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<4x5xf32>, %arg4: tensor<5xf32>, %arg5: tensor<5xf32>):
    %3 = "stablehlo.slice"(%arg3) <{limit_indices = array<i64: 1, 2>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x2xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<1x2xf32>) -> tensor<2xf32>
    %5 = "stablehlo.concatenate"(%4, %arg4) <{dimension = 0 : i64}> : (tensor<2xf32>, tensor<5xf32>) -> tensor<7xf32>
    %6 = "stablehlo.slice"(%5) <{limit_indices = array<i64: 5>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<7xf32>) -> tensor<5xf32>
    %7 = "stablehlo.slice"(%arg3) <{limit_indices = array<i64: 2, 5>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x5xf32>
    %8 = "stablehlo.reshape"(%7) : (tensor<1x5xf32>) -> tensor<5xf32>
    %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64: 1>}> : (tensor<5xf32>) -> tensor<1x5xf32>
    %10 = "stablehlo.broadcast_in_dim"(%arg5) <{broadcast_dimensions = array<i64: 1>}> : (tensor<5xf32>) -> tensor<1x5xf32>
    %11 = "stablehlo.concatenate"(%9, %10) <{dimension = 0 : i64}> : (tensor<1x5xf32>, tensor<1x5xf32>) -> tensor<2x5xf32>
    %12 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %13 = "stablehlo.reduce"(%11, %12) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %14 = "stablehlo.add"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%14) : (tensor<f32>) -> ()
    }) : (tensor<2x5xf32>, tensor<f32>) -> tensor<5xf32>
    "func.return"(%6, %13) : (tensor<5xf32>, tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4x5xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x5xf32>, %arg1: tensor<5xf32>, %arg2: tensor<i32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<5xf32>) -> tensor<1x5xf32>
    %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %2 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2, %1) : (tensor<4x5xf32>, tensor<1x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x5xf32>
    "func.return"(%2) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
