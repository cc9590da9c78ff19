"builtin.module"() <{sym_name = "jit_remat"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["batch"=2, "model"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "batch", size = 2 : i64}, {name = "model", size = 2 : i64}]}} : () -> ()
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{"batch"}, {}]>}], function_type = (tensor<3x8x8xf32>, tensor<4x8xf32>) -> (tensor<f32>, tensor<3x8x8xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg15: tensor<3x8x8xf32>, %arg16: tensor<4x8xf32>):
    %32 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %33 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4x8xf32>
    %34 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %35:4 = "stablehlo.while"(%arg15, %34, %arg16, %33) ({
    ^bb0(%arg33: tensor<3x8x8xf32>, %arg34: tensor<i32>, %arg35: tensor<4x8xf32>, %arg36: tensor<3x4x8xf32>):
      %71 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %72 = "stablehlo.compare"(%arg34, %71) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%72) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg29: tensor<3x8x8xf32>, %arg30: tensor<i32>, %arg31: tensor<4x8xf32>, %arg32: tensor<3x4x8xf32>):
      %62 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %63 = "stablehlo.subtract"(%62, %arg30) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %64 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %65 = "stablehlo.subtract"(%63, %64) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %66 = "func.call"(%arg29, %65) <{callee = @dynamic_index_in_dim}> : (tensor<3x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %67:2 = "func.call"(%arg31, %66) <{callee = @closed_call}> : (tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
      %68 = "func.call"(%arg32, %67#1, %65) <{callee = @dynamic_update_index_in_dim}> : (tensor<3x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>
      %69 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %70 = "stablehlo.add"(%arg30, %69) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg29, %70, %67#0, %68) : (tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x4x8xf32>) -> ()
    }) : (tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x4x8xf32>) -> (tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x4x8xf32>)
    %36 = "stablehlo.multiply"(%35#2, %35#2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %37 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %38 = "stablehlo.broadcast_in_dim"(%37) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32>
    %39 = "stablehlo.multiply"(%38, %35#2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %40 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %41 = "stablehlo.reduce"(%36, %40) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg27: tensor<f32>, %arg28: tensor<f32>):
      %61 = "stablehlo.add"(%arg27, %arg28) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%61) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %42 = "stablehlo.constant"() <{value = dense<3.200000e+01> : tensor<f32>}> : () -> tensor<f32>
    %43 = "stablehlo.divide"(%41, %42) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %44 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %45 = "stablehlo.constant"() <{value = dense<3.200000e+01> : tensor<f32>}> : () -> tensor<f32>
    %46 = "stablehlo.divide"(%44, %45) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %47 = "stablehlo.broadcast_in_dim"(%46) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32>
    %48 = "stablehlo.multiply"(%47, %39) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %49 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %50 = "stablehlo.broadcast_in_dim"(%49) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x8x8xf32>
    %51 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %52:5 = "stablehlo.while"(%35#3, %arg15, %51, %48, %50) ({
    ^bb0(%arg22: tensor<3x4x8xf32>, %arg23: tensor<3x8x8xf32>, %arg24: tensor<i32>, %arg25: tensor<4x8xf32>, %arg26: tensor<3x8x8xf32>):
      %59 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %60 = "stablehlo.compare"(%arg24, %59) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%60) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg17: tensor<3x4x8xf32>, %arg18: tensor<3x8x8xf32>, %arg19: tensor<i32>, %arg20: tensor<4x8xf32>, %arg21: tensor<3x8x8xf32>):
      %53 = "func.call"(%arg17, %arg19) <{callee = @dynamic_index_in_dim_0}> : (tensor<3x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %54 = "func.call"(%arg18, %arg19) <{callee = @dynamic_index_in_dim}> : (tensor<3x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %55:2 = "func.call"(%arg20, %53, %54) <{callee = @closed_call_1}> : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>)
      %56 = "func.call"(%arg21, %55#1, %arg19) <{callee = @dynamic_update_index_in_dim_2}> : (tensor<3x8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> tensor<3x8x8xf32>
      %57 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %58 = "stablehlo.add"(%arg19, %57) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg17, %arg18, %58, %55#0, %56) : (tensor<3x4x8xf32>, tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x8x8xf32>) -> ()
    }) : (tensor<3x4x8xf32>, tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x8x8xf32>) -> (tensor<3x4x8xf32>, tensor<3x8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<3x8x8xf32>)
    "func.return"(%43, %52#4) : (tensor<f32>, tensor<3x8x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg13: tensor<3x8x8xf32>, %arg14: tensor<i32>):
    %28 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %29 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %30 = "stablehlo.dynamic_slice"(%arg13, %arg14, %28, %29) <{slice_sizes = array<i64: 1, 8, 8>}> : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %31 = "stablehlo.reshape"(%30) : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    "func.return"(%31) : (tensor<8x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg11: tensor<4x8xf32>, %arg12: tensor<8x8xf32>):
    %25 = "stablehlo.dot_general"(%arg11, %arg12) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %26 = "stablehlo.tanh"(%25) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %27 = "stablehlo.add"(%26, %arg11) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%27, %arg11) : (tensor<4x8xf32>, tensor<4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<3x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<3x4x8xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<3x4x8xf32>, %arg9: tensor<4x8xf32>, %arg10: tensor<i32>):
    %21 = "stablehlo.broadcast_in_dim"(%arg9) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
    %22 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %23 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %24 = "stablehlo.dynamic_update_slice"(%arg8, %21, %arg10, %22, %23) : (tensor<3x4x8xf32>, tensor<1x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x8xf32>
    "func.return"(%24) : (tensor<3x4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim_0", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<3x4x8xf32>, %arg7: tensor<i32>):
    %17 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %18 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %19 = "stablehlo.dynamic_slice"(%arg6, %arg7, %17, %18) <{slice_sizes = array<i64: 1, 4, 8>}> : (tensor<3x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
    %20 = "stablehlo.reshape"(%19) : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%20) : (tensor<4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>), res_attrs = [{}, {}], sym_name = "closed_call_1", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<4x8xf32>, %arg4: tensor<4x8xf32>, %arg5: tensor<8x8xf32>):
    %4:3 = "stablehlo.optimization_barrier"(%arg4, %arg5, %arg3) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>)
    %5 = "stablehlo.dot_general"(%4#0, %4#1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %6 = "stablehlo.tanh"(%5) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %7 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32>
    %9 = "stablehlo.subtract"(%8, %6) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %10 = "stablehlo.multiply"(%4#2, %9) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %11 = "stablehlo.multiply"(%10, %6) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %12 = "stablehlo.add"(%10, %11) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %13 = "stablehlo.dot_general"(%12, %4#0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %14 = "stablehlo.transpose"(%13) <{permutation = array<i64: 1, 0>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %15 = "stablehlo.dot_general"(%12, %4#1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %16 = "stablehlo.add"(%4#2, %15) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%16, %14) : (tensor<4x8xf32>, tensor<8x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<3x8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> tensor<3x8x8xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim_2", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<3x8x8xf32>, %arg1: tensor<8x8xf32>, %arg2: tensor<i32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2, %1, %2) : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
    "func.return"(%3) : (tensor<3x8x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
