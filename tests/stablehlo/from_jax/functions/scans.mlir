"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<5xf32>, tensor<4x5xf32>, tensor<5xf32>, tensor<4x5xf32>, tensor<i32>, tensor<3xi32>, tensor<4xf32>), res_attrs = [{jax.result_info = "result[0][0]"}, {jax.result_info = "result[0][1]"}, {jax.result_info = "result[1][0]"}, {jax.result_info = "result[1][1]"}, {jax.result_info = "result[2][0]"}, {jax.result_info = "result[2][1]"}, {jax.result_info = "result[3]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg19: tensor<4x5xf32>):
    %21 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %22 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %23 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %24 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %25 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %26:4 = "stablehlo.while"(%arg19, %25, %22, %24) ({
    ^bb0(%arg44: tensor<4x5xf32>, %arg45: tensor<i32>, %arg46: tensor<5xf32>, %arg47: tensor<4x5xf32>):
      %71 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %72 = "stablehlo.compare"(%arg45, %71) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%72) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg40: tensor<4x5xf32>, %arg41: tensor<i32>, %arg42: tensor<5xf32>, %arg43: tensor<4x5xf32>):
      %66 = "func.call"(%arg40, %arg41) <{callee = @dynamic_index_in_dim}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>
      %67:2 = "func.call"(%arg42, %66) <{callee = @closed_call}> : (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
      %68 = "func.call"(%arg43, %67#1, %arg41) <{callee = @dynamic_update_index_in_dim}> : (tensor<4x5xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4x5xf32>
      %69 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %70 = "stablehlo.add"(%arg41, %69) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg40, %70, %67#0, %68) : (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>) -> ()
    }) : (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>)
    %27 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %28 = "stablehlo.broadcast_in_dim"(%27) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %29 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %30 = "stablehlo.broadcast_in_dim"(%29) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %31 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %32:4 = "stablehlo.while"(%arg19, %31, %28, %30) ({
    ^bb0(%arg36: tensor<4x5xf32>, %arg37: tensor<i32>, %arg38: tensor<5xf32>, %arg39: tensor<4x5xf32>):
      %64 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %65 = "stablehlo.compare"(%arg37, %64) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%65) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg32: tensor<4x5xf32>, %arg33: tensor<i32>, %arg34: tensor<5xf32>, %arg35: tensor<4x5xf32>):
      %55 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %56 = "stablehlo.subtract"(%55, %arg33) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %57 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %58 = "stablehlo.subtract"(%56, %57) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %59 = "func.call"(%arg32, %58) <{callee = @dynamic_index_in_dim}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>
      %60:2 = "func.call"(%arg34, %59) <{callee = @closed_call_0}> : (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
      %61 = "func.call"(%arg35, %60#1, %58) <{callee = @dynamic_update_index_in_dim}> : (tensor<4x5xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4x5xf32>
      %62 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %63 = "stablehlo.add"(%arg33, %62) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg32, %63, %60#0, %61) : (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>) -> ()
    }) : (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<i32>, tensor<5xf32>, tensor<4x5xf32>)
    %33 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %34 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %35 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<3xi32>
    %36 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %37:3 = "stablehlo.while"(%36, %33, %35) ({
    ^bb0(%arg29: tensor<i32>, %arg30: tensor<i32>, %arg31: tensor<3xi32>):
      %53 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %54 = "stablehlo.compare"(%arg29, %53) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%54) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg26: tensor<i32>, %arg27: tensor<i32>, %arg28: tensor<3xi32>):
      %49:2 = "func.call"(%arg27) <{callee = @closed_call_1}> : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
      %50 = "func.call"(%arg28, %49#1, %arg26) <{callee = @dynamic_update_index_in_dim_2}> : (tensor<3xi32>, tensor<i32>, tensor<i32>) -> tensor<3xi32>
      %51 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %52 = "stablehlo.add"(%arg26, %51) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%52, %49#0, %50) : (tensor<i32>, tensor<i32>, tensor<3xi32>) -> ()
    }) : (tensor<i32>, tensor<i32>, tensor<3xi32>) -> (tensor<i32>, tensor<i32>, tensor<3xi32>)
    %38 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %39 = "stablehlo.broadcast_in_dim"(%38) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %40 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %41:3 = "stablehlo.while"(%arg19, %40, %39) ({
    ^bb0(%arg23: tensor<4x5xf32>, %arg24: tensor<i32>, %arg25: tensor<4xf32>):
      %47 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %48 = "stablehlo.compare"(%arg24, %47) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%48) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg20: tensor<4x5xf32>, %arg21: tensor<i32>, %arg22: tensor<4xf32>):
      %42 = "func.call"(%arg20, %arg21) <{callee = @dynamic_index_in_dim}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>
      %43 = "func.call"(%42) <{callee = @closed_call_3}> : (tensor<5xf32>) -> tensor<f32>
      %44 = "func.call"(%arg22, %43, %arg21) <{callee = @dynamic_update_index_in_dim_4}> : (tensor<4xf32>, tensor<f32>, tensor<i32>) -> tensor<4xf32>
      %45 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %46 = "stablehlo.add"(%arg21, %45) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg20, %46, %44) : (tensor<4x5xf32>, tensor<i32>, tensor<4xf32>) -> ()
    }) : (tensor<4x5xf32>, tensor<i32>, tensor<4xf32>) -> (tensor<4x5xf32>, tensor<i32>, tensor<4xf32>)
    "func.return"(%26#2, %26#3, %32#2, %32#3, %37#1, %37#2, %41#2) : (tensor<5xf32>, tensor<4x5xf32>, tensor<5xf32>, tensor<4x5xf32>, tensor<i32>, tensor<3xi32>, tensor<4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<5xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg17: tensor<4x5xf32>, %arg18: tensor<i32>):
    %18 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %19 = "stablehlo.dynamic_slice"(%arg17, %arg18, %18) <{slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>
    %20 = "stablehlo.reshape"(%19) : (tensor<1x5xf32>) -> tensor<5xf32>
    "func.return"(%20) : (tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg15: tensor<5xf32>, %arg16: tensor<5xf32>):
    %16 = "stablehlo.add"(%arg15, %arg16) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %17 = "stablehlo.multiply"(%arg15, %arg16) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "func.return"(%16, %17) : (tensor<5xf32>, tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4x5xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg12: tensor<4x5xf32>, %arg13: tensor<5xf32>, %arg14: tensor<i32>):
    %13 = "stablehlo.broadcast_in_dim"(%arg13) <{broadcast_dimensions = array<i64: 1>}> : (tensor<5xf32>) -> tensor<1x5xf32>
    %14 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %15 = "stablehlo.dynamic_update_slice"(%arg12, %13, %arg14, %14) : (tensor<4x5xf32>, tensor<1x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x5xf32>
    "func.return"(%15) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>), res_attrs = [{}, {}], sym_name = "closed_call_0", sym_visibility = "private"}> ({
  ^bb0(%arg10: tensor<5xf32>, %arg11: tensor<5xf32>):
    %9 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %11 = "stablehlo.multiply"(%arg10, %10) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %12 = "stablehlo.add"(%11, %arg11) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "func.return"(%12, %arg10) : (tensor<5xf32>, tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<i32>) -> (tensor<i32>, tensor<i32>), res_attrs = [{}, {}], sym_name = "closed_call_1", sym_visibility = "private"}> ({
  ^bb0(%arg9: tensor<i32>):
    %7 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %8 = "stablehlo.add"(%arg9, %7) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "func.return"(%8, %arg9) : (tensor<i32>, tensor<i32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<3xi32>, tensor<i32>, tensor<i32>) -> tensor<3xi32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim_2", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<3xi32>, %arg7: tensor<i32>, %arg8: tensor<i32>):
    %5 = "stablehlo.broadcast_in_dim"(%arg7) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<1xi32>
    %6 = "stablehlo.dynamic_update_slice"(%arg6, %5, %arg8) : (tensor<3xi32>, tensor<1xi32>, tensor<i32>) -> tensor<3xi32>
    "func.return"(%6) : (tensor<3xi32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>) -> tensor<f32>, res_attrs = [{}], sym_name = "closed_call_3", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<5xf32>):
    %2 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %3 = "stablehlo.reduce"(%arg3, %2) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %4 = "stablehlo.add"(%arg4, %arg5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
    "func.return"(%3) : (tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4xf32>, tensor<f32>, tensor<i32>) -> tensor<4xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim_4", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1xf32>
    %1 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2) : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    "func.return"(%1) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
