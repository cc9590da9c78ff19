"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<5xf32>, tensor<4xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg29: tensor<4x5xf32>):
    %35 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %36 = "stablehlo.broadcast_in_dim"(%35) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %37 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %38 = "stablehlo.broadcast_in_dim"(%37) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %39 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %40:4 = "stablehlo.while"(%arg29, %39, %36, %38) ({
    ^bb0(%arg34: tensor<4x5xf32>, %arg35: tensor<i32>, %arg36: tensor<5xf32>, %arg37: tensor<4xf32>):
      %46 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %47 = "stablehlo.compare"(%arg35, %46) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%47) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg30: tensor<4x5xf32>, %arg31: tensor<i32>, %arg32: tensor<5xf32>, %arg33: tensor<4xf32>):
      %41 = "func.call"(%arg30, %arg31) <{callee = @dynamic_index_in_dim}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>
      %42:2 = "func.call"(%arg32, %41) <{callee = @closed_call}> : (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<f32>)
      %43 = "func.call"(%arg33, %42#1, %arg31) <{callee = @dynamic_update_index_in_dim_2}> : (tensor<4xf32>, tensor<f32>, tensor<i32>) -> tensor<4xf32>
      %44 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %45 = "stablehlo.add"(%arg31, %44) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg30, %45, %42#0, %43) : (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4xf32>) -> ()
    }) : (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4xf32>) -> (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4xf32>)
    "func.return"(%40#2, %40#3) : (tensor<5xf32>, tensor<4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg27: tensor<4x5xf32>, %arg28: tensor<i32>):
    %32 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %33 = "stablehlo.dynamic_slice"(%arg27, %arg28, %32) <{slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>
    %34 = "stablehlo.reshape"(%33) : (tensor<1x5xf32>) -> tensor<5xf32>
    "func.return"(%34) : (tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<f32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg13: tensor<5xf32>, %arg14: tensor<5xf32>):
    %11 = "stablehlo.slice"(%arg13) <{limit_indices = array<i64: 1>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<5xf32>) -> tensor<1xf32>
    %12 = "stablehlo.reshape"(%11) : (tensor<1xf32>) -> tensor<f32>
    %13 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %15 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %16:5 = "stablehlo.while"(%arg14, %arg13, %15, %12, %14) ({
    ^bb0(%arg22: tensor<5xf32>, %arg23: tensor<5xf32>, %arg24: tensor<i32>, %arg25: tensor<f32>, %arg26: tensor<5xf32>):
      %30 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
      %31 = "stablehlo.compare"(%arg24, %30) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%31) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg17: tensor<5xf32>, %arg18: tensor<5xf32>, %arg19: tensor<i32>, %arg20: tensor<f32>, %arg21: tensor<5xf32>):
      %25 = "func.call"(%arg17, %arg19) <{callee = @dynamic_index_in_dim_0}> : (tensor<5xf32>, tensor<i32>) -> tensor<f32>
      %26:2 = "func.call"(%arg18, %arg20, %25) <{callee = @closed_call_1}> : (tensor<5xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
      %27 = "func.call"(%arg21, %26#1, %arg19) <{callee = @dynamic_update_index_in_dim}> : (tensor<5xf32>, tensor<f32>, tensor<i32>) -> tensor<5xf32>
      %28 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %29 = "stablehlo.add"(%arg19, %28) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg17, %arg18, %29, %26#0, %27) : (tensor<5xf32>, tensor<5xf32>, tensor<i32>, tensor<f32>, tensor<5xf32>) -> ()
    }) : (tensor<5xf32>, tensor<5xf32>, tensor<i32>, tensor<f32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<i32>, tensor<f32>, tensor<5xf32>)
    %17 = "stablehlo.broadcast_in_dim"(%16#3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %18 = "stablehlo.multiply"(%17, %arg13) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %19 = "stablehlo.constant"() <{value = dense<1.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %20 = "stablehlo.broadcast_in_dim"(%19) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %21 = "stablehlo.multiply"(%18, %20) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %22 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %23 = "stablehlo.reduce"(%arg14, %22) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      %24 = "stablehlo.add"(%arg15, %arg16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%24) : (tensor<f32>) -> ()
    }) : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
    "func.return"(%21, %23) : (tensor<5xf32>, tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<5xf32>, tensor<i32>) -> tensor<f32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim_0", sym_visibility = "private"}> ({
  ^bb0(%arg11: tensor<5xf32>, %arg12: tensor<i32>):
    %9 = "stablehlo.dynamic_slice"(%arg11, %arg12) <{slice_sizes = array<i64: 1>}> : (tensor<5xf32>, tensor<i32>) -> tensor<1xf32>
    %10 = "stablehlo.reshape"(%9) : (tensor<1xf32>) -> tensor<f32>
    "func.return"(%10) : (tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>), res_attrs = [{}, {}], sym_name = "closed_call_1", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<5xf32>, %arg7: tensor<f32>, %arg8: tensor<f32>):
    %4 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.reduce"(%arg6, %4) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %8 = "stablehlo.add"(%arg9, %arg10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%8) : (tensor<f32>) -> ()
    }) : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
    %6 = "stablehlo.multiply"(%arg8, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = "stablehlo.add"(%arg7, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "func.return"(%7, %arg7) : (tensor<f32>, tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<5xf32>, tensor<f32>, tensor<i32>) -> tensor<5xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<5xf32>, %arg4: tensor<f32>, %arg5: tensor<i32>):
    %2 = "stablehlo.broadcast_in_dim"(%arg4) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1xf32>
    %3 = "stablehlo.dynamic_update_slice"(%arg3, %2, %arg5) : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
    "func.return"(%3) : (tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4xf32>, tensor<f32>, tensor<i32>) -> tensor<4xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim_2", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1xf32>
    %1 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    "func.return"(%1) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
