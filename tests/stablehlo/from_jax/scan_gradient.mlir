"builtin.module"() <{sym_name = "jit_rnn"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["batch"=2, "model"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "batch", size = 2 : i64}, {name = "model", size = 2 : i64}]}} : () -> ()
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {"batch"}, {}]>}], function_type = (tensor<8x8xf32>, tensor<5x8xf32>, tensor<7x4x5xf32>) -> (tensor<f32>, tensor<8x8xf32>, tensor<5x8xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]['hidden']"}, {jax.result_info = "result[1]['in']"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg33: tensor<8x8xf32>, %arg34: tensor<5x8xf32>, %arg35: tensor<7x4x5xf32>):
    %47 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %48 = "stablehlo.broadcast_in_dim"(%47) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32>
    %49 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %50 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %51 = "stablehlo.broadcast_in_dim"(%50) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<7x4xf32>
    %52 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %53 = "stablehlo.broadcast_in_dim"(%52) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<7x4x8xf32>
    %54 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %55 = "stablehlo.broadcast_in_dim"(%54) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<7x4x8xf32>
    %56 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %57 = "stablehlo.broadcast_in_dim"(%56) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<7x4x8xf32>
    %58 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %59:10 = "stablehlo.while"(%arg35, %arg34, %arg33, %49, %58, %48, %51, %53, %55, %57) ({
    ^bb0(%arg70: tensor<7x4x5xf32>, %arg71: tensor<5x8xf32>, %arg72: tensor<8x8xf32>, %arg73: tensor<f32>, %arg74: tensor<i32>, %arg75: tensor<4x8xf32>, %arg76: tensor<7x4xf32>, %arg77: tensor<7x4x8xf32>, %arg78: tensor<7x4x8xf32>, %arg79: tensor<7x4x8xf32>):
      %118 = "stablehlo.constant"() <{value = dense<7> : tensor<i32>}> : () -> tensor<i32>
      %119 = "stablehlo.compare"(%arg74, %118) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%119) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg60: tensor<7x4x5xf32>, %arg61: tensor<5x8xf32>, %arg62: tensor<8x8xf32>, %arg63: tensor<f32>, %arg64: tensor<i32>, %arg65: tensor<4x8xf32>, %arg66: tensor<7x4xf32>, %arg67: tensor<7x4x8xf32>, %arg68: tensor<7x4x8xf32>, %arg69: tensor<7x4x8xf32>):
      %110 = "func.call"(%arg60, %arg64) <{callee = @dynamic_index_in_dim}> : (tensor<7x4x5xf32>, tensor<i32>) -> tensor<4x5xf32>
      %111:5 = "func.call"(%arg61, %arg62, %arg63, %arg65, %110) <{callee = @closed_call}> : (tensor<5x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<4x8xf32>, tensor<4x5xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
      %112 = "func.call"(%arg66, %111#1, %arg64) <{callee = @dynamic_update_index_in_dim}> : (tensor<7x4xf32>, tensor<4xf32>, tensor<i32>) -> tensor<7x4xf32>
      %113 = "func.call"(%arg67, %111#2, %arg64) <{callee = @dynamic_update_index_in_dim_0}> : (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>
      %114 = "func.call"(%arg68, %111#3, %arg64) <{callee = @dynamic_update_index_in_dim_1}> : (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>
      %115 = "func.call"(%arg69, %111#4, %arg64) <{callee = @dynamic_update_index_in_dim_1}> : (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>
      %116 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %117 = "stablehlo.add"(%arg64, %116) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg60, %arg61, %arg62, %arg63, %117, %111#0, %112, %113, %114, %115) : (tensor<7x4x5xf32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<i32>, tensor<4x8xf32>, tensor<7x4xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>) -> ()
    }) : (tensor<7x4x5xf32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<i32>, tensor<4x8xf32>, tensor<7x4xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>) -> (tensor<7x4x5xf32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<i32>, tensor<4x8xf32>, tensor<7x4xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>)
    %60 = "stablehlo.multiply"(%59#5, %59#5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %61 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %62 = "stablehlo.broadcast_in_dim"(%61) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32>
    %63 = "stablehlo.multiply"(%62, %59#5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %64 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %65 = "stablehlo.reduce"(%60, %64) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg58: tensor<f32>, %arg59: tensor<f32>):
      %109 = "stablehlo.add"(%arg58, %arg59) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%109) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %66 = "stablehlo.constant"() <{value = dense<3.200000e+01> : tensor<f32>}> : () -> tensor<f32>
    %67 = "stablehlo.divide"(%65, %66) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %68 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<7xi32>
    %69 = "stablehlo.broadcast_in_dim"(%68) <{broadcast_dimensions = array<i64: 0>}> : (tensor<7xi32>) -> tensor<7x1xi32>
    %70 = "stablehlo.convert"(%69) : (tensor<7x1xi32>) -> tensor<7x1xf32>
    %71 = "stablehlo.broadcast_in_dim"(%70) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<7x1xf32>) -> tensor<7x4xf32>
    %72 = "stablehlo.multiply"(%59#6, %71) : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<7x4xf32>
    %73 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %74 = "stablehlo.reduce"(%72, %73) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg56: tensor<f32>, %arg57: tensor<f32>):
      %108 = "stablehlo.add"(%arg56, %arg57) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%108) : (tensor<f32>) -> ()
    }) : (tensor<7x4xf32>, tensor<f32>) -> tensor<f32>
    %75 = "stablehlo.constant"() <{value = dense<2.800000e+01> : tensor<f32>}> : () -> tensor<f32>
    %76 = "stablehlo.divide"(%74, %75) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %77 = "stablehlo.add"(%67, %76) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %78 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %79 = "stablehlo.constant"() <{value = dense<2.800000e+01> : tensor<f32>}> : () -> tensor<f32>
    %80 = "stablehlo.divide"(%78, %79) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %81 = "stablehlo.broadcast_in_dim"(%80) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<7x4xf32>
    %82 = "stablehlo.broadcast_in_dim"(%70) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<7x1xf32>) -> tensor<7x4xf32>
    %83 = "stablehlo.multiply"(%81, %82) : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<7x4xf32>
    %84 = "stablehlo.constant"() <{value = dense<3.200000e+01> : tensor<f32>}> : () -> tensor<f32>
    %85 = "stablehlo.divide"(%78, %84) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %86 = "stablehlo.broadcast_in_dim"(%85) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32>
    %87 = "stablehlo.multiply"(%86, %63) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %88 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %89 = "stablehlo.broadcast_in_dim"(%88) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5x8xf32>
    %90 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %91 = "stablehlo.broadcast_in_dim"(%90) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x8xf32>
    %92 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %93:10 = "stablehlo.while"(%83, %arg35, %59#7, %59#8, %59#9, %arg33, %92, %89, %91, %87) ({
    ^bb0(%arg46: tensor<7x4xf32>, %arg47: tensor<7x4x5xf32>, %arg48: tensor<7x4x8xf32>, %arg49: tensor<7x4x8xf32>, %arg50: tensor<7x4x8xf32>, %arg51: tensor<8x8xf32>, %arg52: tensor<i32>, %arg53: tensor<5x8xf32>, %arg54: tensor<8x8xf32>, %arg55: tensor<4x8xf32>):
      %106 = "stablehlo.constant"() <{value = dense<7> : tensor<i32>}> : () -> tensor<i32>
      %107 = "stablehlo.compare"(%arg52, %106) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%107) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg36: tensor<7x4xf32>, %arg37: tensor<7x4x5xf32>, %arg38: tensor<7x4x8xf32>, %arg39: tensor<7x4x8xf32>, %arg40: tensor<7x4x8xf32>, %arg41: tensor<8x8xf32>, %arg42: tensor<i32>, %arg43: tensor<5x8xf32>, %arg44: tensor<8x8xf32>, %arg45: tensor<4x8xf32>):
      %94 = "stablehlo.constant"() <{value = dense<7> : tensor<i32>}> : () -> tensor<i32>
      %95 = "stablehlo.subtract"(%94, %arg42) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %96 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %97 = "stablehlo.subtract"(%95, %96) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %98 = "func.call"(%arg36, %97) <{callee = @dynamic_index_in_dim_2}> : (tensor<7x4xf32>, tensor<i32>) -> tensor<4xf32>
      %99 = "func.call"(%arg37, %97) <{callee = @dynamic_index_in_dim}> : (tensor<7x4x5xf32>, tensor<i32>) -> tensor<4x5xf32>
      %100 = "func.call"(%arg38, %97) <{callee = @dynamic_index_in_dim_3}> : (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %101 = "func.call"(%arg39, %97) <{callee = @dynamic_index_in_dim_4}> : (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %102 = "func.call"(%arg40, %97) <{callee = @dynamic_index_in_dim_4}> : (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %103:3 = "func.call"(%arg41, %arg43, %arg44, %arg45, %98, %99, %100, %101, %102) <{callee = @closed_call_5}> : (tensor<8x8xf32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4x5xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>)
      %104 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %105 = "stablehlo.add"(%arg42, %104) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg36, %arg37, %arg38, %arg39, %arg40, %arg41, %105, %103#0, %103#1, %103#2) : (tensor<7x4xf32>, tensor<7x4x5xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> ()
    }) : (tensor<7x4xf32>, tensor<7x4x5xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> (tensor<7x4xf32>, tensor<7x4x5xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>)
    "func.return"(%77, %93#8, %93#7) : (tensor<f32>, tensor<8x8xf32>, tensor<5x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<7x4x5xf32>, tensor<i32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg31: tensor<7x4x5xf32>, %arg32: tensor<i32>):
    %43 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %44 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %45 = "stablehlo.dynamic_slice"(%arg31, %arg32, %43, %44) <{slice_sizes = array<i64: 1, 4, 5>}> : (tensor<7x4x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x5xf32>
    %46 = "stablehlo.reshape"(%45) : (tensor<1x4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%46) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<4x8xf32>, tensor<4x5xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>), res_attrs = [{}, {}, {}, {}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg24: tensor<5x8xf32>, %arg25: tensor<8x8xf32>, %arg26: tensor<f32>, %arg27: tensor<4x8xf32>, %arg28: tensor<4x5xf32>):
    %34 = "stablehlo.dot_general"(%arg28, %arg24) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x5xf32>, tensor<5x8xf32>) -> tensor<4x8xf32>
    %35 = "stablehlo.dot_general"(%arg27, %arg25) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %36 = "stablehlo.add"(%34, %35) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %37 = "stablehlo.tanh"(%36) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %38 = "stablehlo.broadcast_in_dim"(%arg26) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x8xf32>
    %39 = "stablehlo.subtract"(%38, %37) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %40 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %41 = "stablehlo.reduce"(%37, %40) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg29: tensor<f32>, %arg30: tensor<f32>):
      %42 = "stablehlo.add"(%arg29, %arg30) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%42) : (tensor<f32>) -> ()
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    "func.return"(%37, %41, %arg27, %37, %39) : (tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<7x4xf32>, tensor<4xf32>, tensor<i32>) -> tensor<7x4xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg21: tensor<7x4xf32>, %arg22: tensor<4xf32>, %arg23: tensor<i32>):
    %31 = "stablehlo.broadcast_in_dim"(%arg22) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<1x4xf32>
    %32 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %33 = "stablehlo.dynamic_update_slice"(%arg21, %31, %arg23, %32) : (tensor<7x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<7x4xf32>
    "func.return"(%33) : (tensor<7x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim_0", sym_visibility = "private"}> ({
  ^bb0(%arg18: tensor<7x4x8xf32>, %arg19: tensor<4x8xf32>, %arg20: tensor<i32>):
    %27 = "stablehlo.broadcast_in_dim"(%arg19) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
    %28 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %29 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %30 = "stablehlo.dynamic_update_slice"(%arg18, %27, %arg20, %28, %29) : (tensor<7x4x8xf32>, tensor<1x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<7x4x8xf32>
    "func.return"(%30) : (tensor<7x4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim_1", sym_visibility = "private"}> ({
  ^bb0(%arg15: tensor<7x4x8xf32>, %arg16: tensor<4x8xf32>, %arg17: tensor<i32>):
    %23 = "stablehlo.broadcast_in_dim"(%arg16) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
    %24 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %25 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %26 = "stablehlo.dynamic_update_slice"(%arg15, %23, %arg17, %24, %25) : (tensor<7x4x8xf32>, tensor<1x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<7x4x8xf32>
    "func.return"(%26) : (tensor<7x4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<7x4xf32>, tensor<i32>) -> tensor<4xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim_2", sym_visibility = "private"}> ({
  ^bb0(%arg13: tensor<7x4xf32>, %arg14: tensor<i32>):
    %20 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %21 = "stablehlo.dynamic_slice"(%arg13, %arg14, %20) <{slice_sizes = array<i64: 1, 4>}> : (tensor<7x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %22 = "stablehlo.reshape"(%21) : (tensor<1x4xf32>) -> tensor<4xf32>
    "func.return"(%22) : (tensor<4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim_3", sym_visibility = "private"}> ({
  ^bb0(%arg11: tensor<7x4x8xf32>, %arg12: tensor<i32>):
    %16 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %17 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %18 = "stablehlo.dynamic_slice"(%arg11, %arg12, %16, %17) <{slice_sizes = array<i64: 1, 4, 8>}> : (tensor<7x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
    %19 = "stablehlo.reshape"(%18) : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%19) : (tensor<4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim_4", sym_visibility = "private"}> ({
  ^bb0(%arg9: tensor<7x4x8xf32>, %arg10: tensor<i32>):
    %12 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %13 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %14 = "stablehlo.dynamic_slice"(%arg9, %arg10, %12, %13) <{slice_sizes = array<i64: 1, 4, 8>}> : (tensor<7x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
    %15 = "stablehlo.reshape"(%14) : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%15) : (tensor<4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<8x8xf32>, tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4x5xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>), res_attrs = [{}, {}, {}], sym_name = "closed_call_5", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8x8xf32>, %arg1: tensor<5x8xf32>, %arg2: tensor<8x8xf32>, %arg3: tensor<4x8xf32>, %arg4: tensor<4xf32>, %arg5: tensor<4x5xf32>, %arg6: tensor<4x8xf32>, %arg7: tensor<4x8xf32>, %arg8: tensor<4x8xf32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg4) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) -> tensor<4x8xf32>
    %1 = "stablehlo.add"(%arg3, %0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "stablehlo.multiply"(%1, %arg8) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "stablehlo.multiply"(%2, %arg7) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "stablehlo.add"(%2, %3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = "stablehlo.dot_general"(%4, %arg6) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %6 = "stablehlo.transpose"(%5) <{permutation = array<i64: 1, 0>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "stablehlo.add"(%arg2, %6) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %8 = "stablehlo.dot_general"(%4, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %9 = "stablehlo.dot_general"(%4, %arg5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x8xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
    %10 = "stablehlo.transpose"(%9) <{permutation = array<i64: 1, 0>}> : (tensor<8x5xf32>) -> tensor<5x8xf32>
    %11 = "stablehlo.add"(%arg1, %10) : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
    "func.return"(%11, %7, %8) : (tensor<5x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
