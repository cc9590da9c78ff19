"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<i32>, tensor<5xf32>, tensor<4xi32>), res_attrs = [{jax.result_info = "result[0][0]"}, {jax.result_info = "result[0][1]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg8: tensor<4x5xf32>):
    %11 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %13 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
    %14 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4xi32>
    %16 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %17:5 = "stablehlo.while"(%arg8, %16, %13, %12, %15) ({
    ^bb0(%arg14: tensor<4x5xf32>, %arg15: tensor<i32>, %arg16: tensor<i32>, %arg17: tensor<5xf32>, %arg18: tensor<4xi32>):
      %23 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %24 = "stablehlo.compare"(%arg15, %23) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%24) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg9: tensor<4x5xf32>, %arg10: tensor<i32>, %arg11: tensor<i32>, %arg12: tensor<5xf32>, %arg13: tensor<4xi32>):
      %18 = "func.call"(%arg9, %arg10) <{callee = @dynamic_index_in_dim}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>
      %19:3 = "func.call"(%arg11, %arg12, %18) <{callee = @closed_call}> : (tensor<i32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>, tensor<i32>)
      %20 = "func.call"(%arg13, %19#2, %arg10) <{callee = @dynamic_update_index_in_dim}> : (tensor<4xi32>, tensor<i32>, tensor<i32>) -> tensor<4xi32>
      %21 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %22 = "stablehlo.add"(%arg10, %21) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg9, %22, %19#0, %19#1, %20) : (tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>, tensor<4xi32>) -> ()
    }) : (tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>, tensor<4xi32>) -> (tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<5xf32>, tensor<4xi32>)
    "func.return"(%17#2, %17#3, %17#4) : (tensor<i32>, tensor<5xf32>, tensor<4xi32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<4x5xf32>, %arg7: tensor<i32>):
    %8 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %9 = "stablehlo.dynamic_slice"(%arg6, %arg7, %8) <{slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>
    %10 = "stablehlo.reshape"(%9) : (tensor<1x5xf32>) -> tensor<5xf32>
    "func.return"(%10) : (tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<i32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>, tensor<i32>), res_attrs = [{}, {}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<i32>, %arg4: tensor<5xf32>, %arg5: tensor<5xf32>):
    %2 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.add"(%arg3, %2) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %4 = "stablehlo.convert"(%arg3) : (tensor<i32>) -> tensor<f32>
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %6 = "stablehlo.multiply"(%arg5, %5) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %7 = "stablehlo.add"(%arg4, %6) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "func.return"(%3, %7, %arg3) : (tensor<i32>, tensor<5xf32>, tensor<i32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4xi32>, tensor<i32>, tensor<i32>) -> tensor<4xi32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4xi32>, %arg1: tensor<i32>, %arg2: tensor<i32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<1xi32>
    %1 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2) : (tensor<4xi32>, tensor<1xi32>, tensor<i32>) -> tensor<4xi32>
    "func.return"(%1) : (tensor<4xi32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
