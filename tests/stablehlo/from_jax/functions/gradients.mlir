"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg17: tensor<4x5xf32>):
    %32 = "stablehlo.constant"() <{value = dense<[0, 0, 1]> : tensor<3xi32>}> : () -> tensor<3xi32>
    %33 = "stablehlo.tanh"(%arg17) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %34 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %35 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %36 = "stablehlo.subtract"(%35, %33) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %37 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %38 = "stablehlo.reduce"(%33, %37) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg38: tensor<f32>, %arg39: tensor<f32>):
      %221 = "stablehlo.add"(%arg38, %arg39) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%221) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<f32>
    %39 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %40 = "stablehlo.reduce"(%arg17, %39) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg36: tensor<f32>, %arg37: tensor<f32>):
      %220 = "stablehlo.maximum"(%arg36, %arg37) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%220) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %41 = "stablehlo.reshape"(%40) : (tensor<4xf32>) -> tensor<4x1xf32>
    %42 = "stablehlo.broadcast_in_dim"(%41) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x5xf32>
    %43 = "stablehlo.compare"(%arg17, %42) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xi1>
    %44 = "stablehlo.convert"(%43) : (tensor<4x5xi1>) -> tensor<4x5xf32>
    %45 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %46 = "stablehlo.reduce"(%44, %45) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg34: tensor<f32>, %arg35: tensor<f32>):
      %219 = "stablehlo.add"(%arg34, %arg35) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%219) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %47 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %48 = "stablehlo.broadcast_in_dim"(%47) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %49 = "stablehlo.maximum"(%48, %40) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %50 = "stablehlo.compare"(%40, %49) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %51 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %52 = "stablehlo.broadcast_in_dim"(%51) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %53 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %54 = "stablehlo.broadcast_in_dim"(%53) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %55 = "stablehlo.select"(%50, %52, %54) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %56 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %57 = "stablehlo.broadcast_in_dim"(%56) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %58 = "stablehlo.compare"(%57, %49) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %59 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %60 = "stablehlo.broadcast_in_dim"(%59) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %61 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %62 = "stablehlo.broadcast_in_dim"(%61) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %63 = "stablehlo.select"(%58, %60, %62) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %64 = "stablehlo.divide"(%55, %63) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %65 = "stablehlo.broadcast_in_dim"(%49) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) -> tensor<4x1xf32>
    %66 = "stablehlo.broadcast_in_dim"(%65) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x5xf32>
    %67 = "stablehlo.subtract"(%arg17, %66) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %68 = "stablehlo.exponential"(%67) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %69 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %70 = "stablehlo.reduce"(%68, %69) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg32: tensor<f32>, %arg33: tensor<f32>):
      %218 = "stablehlo.add"(%arg32, %arg33) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%218) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %71 = "stablehlo.broadcast_in_dim"(%70) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) -> tensor<4x1xf32>
    %72 = "stablehlo.broadcast_in_dim"(%71) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x5xf32>
    %73 = "stablehlo.divide"(%68, %72) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %74 = "stablehlo.multiply"(%71, %71) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
    %75 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %76 = "stablehlo.broadcast_in_dim"(%75) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x1xf32>
    %77 = "stablehlo.divide"(%76, %74) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
    %78 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %79 = "stablehlo.reduce"(%73, %78) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %217 = "stablehlo.maximum"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%217) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<f32>
    %80 = "stablehlo.reshape"(%79) : (tensor<f32>) -> tensor<1x1xf32>
    %81 = "stablehlo.broadcast_in_dim"(%80) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x1xf32>) -> tensor<4x5xf32>
    %82 = "stablehlo.compare"(%73, %81) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xi1>
    %83 = "stablehlo.convert"(%82) : (tensor<4x5xi1>) -> tensor<4x5xf32>
    %84 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %85 = "stablehlo.reduce"(%83, %84) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
      %216 = "stablehlo.add"(%arg28, %arg29) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%216) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<f32>
    %86 = "stablehlo.add"(%38, %79) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %87:2 = "func.call"(%arg17) <{callee = @sort}> : (tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5x1xui32>)
    %88 = "stablehlo.slice"(%87#0) <{limit_indices = array<i64: 4, 2>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<4x1xf32>
    %89 = "stablehlo.reshape"(%88) : (tensor<4x1xf32>) -> tensor<4xf32>
    %90 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %91 = "stablehlo.reduce"(%89, %90) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg26: tensor<f32>, %arg27: tensor<f32>):
      %215 = "stablehlo.add"(%arg26, %arg27) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%215) : (tensor<f32>) -> ()
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %92 = "stablehlo.add"(%86, %91) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %93 = "func.call"(%arg17) <{callee = @cumsum}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %94 = "stablehlo.reshape"(%93) : (tensor<4x5xf32>) -> tensor<20xf32>
    %95 = "stablehlo.slice"(%94) <{limit_indices = array<i64: 10>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<20xf32>) -> tensor<10xf32>
    %96 = "stablehlo.slice"(%94) <{limit_indices = array<i64: 20>, start_indices = array<i64: 10>, strides = array<i64: 1>}> : (tensor<20xf32>) -> tensor<10xf32>
    %97 = "stablehlo.multiply"(%95, %96) : (tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32>
    %98 = "stablehlo.slice"(%97) <{limit_indices = array<i64: 5>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<10xf32>) -> tensor<5xf32>
    %99 = "stablehlo.slice"(%97) <{limit_indices = array<i64: 10>, start_indices = array<i64: 5>, strides = array<i64: 1>}> : (tensor<10xf32>) -> tensor<5xf32>
    %100 = "stablehlo.multiply"(%98, %99) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %101 = "stablehlo.slice"(%100) <{limit_indices = array<i64: 3>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<5xf32>) -> tensor<3xf32>
    %102 = "stablehlo.slice"(%100) <{limit_indices = array<i64: 5>, start_indices = array<i64: 3>, strides = array<i64: 1>}> : (tensor<5xf32>) -> tensor<2xf32>
    %103 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %104 = "stablehlo.pad"(%102, %103) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
    %105 = "stablehlo.multiply"(%101, %104) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %106 = "stablehlo.slice"(%105) <{limit_indices = array<i64: 2>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2xf32>
    %107 = "stablehlo.slice"(%105) <{limit_indices = array<i64: 3>, start_indices = array<i64: 2>, strides = array<i64: 1>}> : (tensor<3xf32>) -> tensor<1xf32>
    %108 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %109 = "stablehlo.pad"(%107, %108) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<1xf32>, tensor<f32>) -> tensor<2xf32>
    %110 = "stablehlo.multiply"(%106, %109) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %111 = "stablehlo.slice"(%110) <{limit_indices = array<i64: 1>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<2xf32>) -> tensor<1xf32>
    %112 = "stablehlo.slice"(%110) <{limit_indices = array<i64: 2>, start_indices = array<i64: 1>, strides = array<i64: 1>}> : (tensor<2xf32>) -> tensor<1xf32>
    %113 = "stablehlo.multiply"(%111, %112) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %114 = "stablehlo.reshape"(%113) : (tensor<1xf32>) -> tensor<f32>
    %115 = "stablehlo.add"(%92, %114) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %116 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %117 = "stablehlo.broadcast_in_dim"(%116) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<3xi32>
    %118 = "stablehlo.compare"(%32, %117) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %119 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
    %120 = "stablehlo.broadcast_in_dim"(%119) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<3xi32>
    %121 = "stablehlo.add"(%32, %120) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %122 = "stablehlo.select"(%118, %121, %32) : (tensor<3xi1>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %123 = "stablehlo.broadcast_in_dim"(%122) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xi32>) -> tensor<3x1xi32>
    %124 = "stablehlo.gather"(%arg17, %123) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<3x1xi32>) -> tensor<3x5xf32>
    %125 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %126 = "stablehlo.reduce"(%124, %125) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg24: tensor<f32>, %arg25: tensor<f32>):
      %214 = "stablehlo.add"(%arg24, %arg25) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%214) : (tensor<f32>) -> ()
    }) : (tensor<3x5xf32>, tensor<f32>) -> tensor<f32>
    %127 = "stablehlo.add"(%115, %126) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %128 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %129 = "stablehlo.broadcast_in_dim"(%128) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x5xf32>
    %130 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %131 = "stablehlo.broadcast_in_dim"(%130) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %132 = "stablehlo.scatter"(%131, %123, %129) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg22: tensor<f32>, %arg23: tensor<f32>):
      %213 = "stablehlo.add"(%arg22, %arg23) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%213) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<3x1xi32>, tensor<3x5xf32>) -> tensor<4x5xf32>
    %133 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %134 = "stablehlo.broadcast_in_dim"(%133) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<1xf32>
    %135 = "stablehlo.multiply"(%111, %134) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %136 = "stablehlo.multiply"(%134, %112) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %137 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %138 = "stablehlo.pad"(%135, %137) <{edge_padding_high = array<i64: 0>, edge_padding_low = array<i64: 1>, interior_padding = array<i64: 0>}> : (tensor<1xf32>, tensor<f32>) -> tensor<2xf32>
    %139 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %140 = "stablehlo.pad"(%136, %139) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<1xf32>, tensor<f32>) -> tensor<2xf32>
    %141 = "stablehlo.add"(%138, %140) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %142 = "stablehlo.multiply"(%106, %141) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %143 = "stablehlo.multiply"(%141, %109) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %144 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %145 = "stablehlo.pad"(%142, %144) <{edge_padding_high = array<i64: -1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<2xf32>, tensor<f32>) -> tensor<1xf32>
    %146 = "stablehlo.slice"(%145) <{limit_indices = array<i64: 1>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<1xf32>) -> tensor<1xf32>
    %147 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %148 = "stablehlo.pad"(%146, %147) <{edge_padding_high = array<i64: 0>, edge_padding_low = array<i64: 2>, interior_padding = array<i64: 0>}> : (tensor<1xf32>, tensor<f32>) -> tensor<3xf32>
    %149 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %150 = "stablehlo.pad"(%143, %149) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
    %151 = "stablehlo.add"(%148, %150) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %152 = "stablehlo.multiply"(%101, %151) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %153 = "stablehlo.multiply"(%151, %104) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %154 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %155 = "stablehlo.pad"(%152, %154) <{edge_padding_high = array<i64: -1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<3xf32>, tensor<f32>) -> tensor<2xf32>
    %156 = "stablehlo.slice"(%155) <{limit_indices = array<i64: 2>, start_indices = array<i64: 0>, strides = array<i64: 1>}> : (tensor<2xf32>) -> tensor<2xf32>
    %157 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %158 = "stablehlo.pad"(%156, %157) <{edge_padding_high = array<i64: 0>, edge_padding_low = array<i64: 3>, interior_padding = array<i64: 0>}> : (tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
    %159 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %160 = "stablehlo.pad"(%153, %159) <{edge_padding_high = array<i64: 2>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
    %161 = "stablehlo.add"(%158, %160) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %162 = "stablehlo.multiply"(%98, %161) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %163 = "stablehlo.multiply"(%161, %99) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %164 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %165 = "stablehlo.pad"(%162, %164) <{edge_padding_high = array<i64: 0>, edge_padding_low = array<i64: 5>, interior_padding = array<i64: 0>}> : (tensor<5xf32>, tensor<f32>) -> tensor<10xf32>
    %166 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %167 = "stablehlo.pad"(%163, %166) <{edge_padding_high = array<i64: 5>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<5xf32>, tensor<f32>) -> tensor<10xf32>
    %168 = "stablehlo.add"(%165, %167) : (tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32>
    %169 = "stablehlo.multiply"(%95, %168) : (tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32>
    %170 = "stablehlo.multiply"(%168, %96) : (tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32>
    %171 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %172 = "stablehlo.pad"(%169, %171) <{edge_padding_high = array<i64: 0>, edge_padding_low = array<i64: 10>, interior_padding = array<i64: 0>}> : (tensor<10xf32>, tensor<f32>) -> tensor<20xf32>
    %173 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %174 = "stablehlo.pad"(%170, %173) <{edge_padding_high = array<i64: 10>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<10xf32>, tensor<f32>) -> tensor<20xf32>
    %175 = "stablehlo.add"(%172, %174) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
    %176 = "stablehlo.reshape"(%175) : (tensor<20xf32>) -> tensor<4x5xf32>
    %177 = "func.call"(%176) <{callee = @cumsum_1}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %178 = "stablehlo.add"(%132, %177) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %179 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %180 = "stablehlo.broadcast_in_dim"(%179) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %181 = "stablehlo.broadcast_in_dim"(%180) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) -> tensor<4x1xf32>
    %182 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %183 = "stablehlo.pad"(%181, %182) <{edge_padding_high = array<i64: 0, 3>, edge_padding_low = array<i64: 0, 1>, interior_padding = array<i64: 0, 0>}> : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x5xf32>
    %184 = "func.call"(%87#1, %183) <{callee = @sort_3}> : (tensor<4x5x1xui32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %185 = "stablehlo.add"(%178, %184) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %186 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %187 = "stablehlo.divide"(%186, %85) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %188 = "stablehlo.broadcast_in_dim"(%187) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %189 = "stablehlo.multiply"(%188, %83) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %190 = "stablehlo.broadcast_in_dim"(%77) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x5xf32>
    %191 = "stablehlo.multiply"(%189, %190) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %192 = "stablehlo.multiply"(%191, %68) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %193 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %194 = "stablehlo.reduce"(%192, %193) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg20: tensor<f32>, %arg21: tensor<f32>):
      %212 = "stablehlo.add"(%arg20, %arg21) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%212) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %195 = "stablehlo.reshape"(%194) : (tensor<4xf32>) -> tensor<4x1xf32>
    %196 = "stablehlo.negate"(%195) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %197 = "stablehlo.broadcast_in_dim"(%71) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x5xf32>
    %198 = "stablehlo.divide"(%189, %197) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %199 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %200 = "stablehlo.reduce"(%196, %199) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg18: tensor<f32>, %arg19: tensor<f32>):
      %211 = "stablehlo.add"(%arg18, %arg19) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%211) : (tensor<f32>) -> ()
    }) : (tensor<4x1xf32>, tensor<f32>) -> tensor<4xf32>
    %201 = "stablehlo.broadcast_in_dim"(%200) <{broadcast_dimensions = array<i64: 0>}> : (tensor<4xf32>) -> tensor<4x5xf32>
    %202 = "stablehlo.add"(%198, %201) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %203 = "stablehlo.multiply"(%202, %68) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %204 = "stablehlo.add"(%185, %203) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %205 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %206 = "stablehlo.broadcast_in_dim"(%205) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %207 = "stablehlo.multiply"(%206, %36) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %208 = "stablehlo.add"(%204, %207) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %209 = "stablehlo.multiply"(%207, %33) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %210 = "stablehlo.add"(%208, %209) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%210) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5x1xui32>), res_attrs = [{}, {}], sym_name = "sort", sym_visibility = "private"}> ({
  ^bb0(%arg12: tensor<4x5xf32>):
    %14 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4x5xui32>
    %15:2 = "stablehlo.sort"(%arg12, %14) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg13: tensor<f32>, %arg14: tensor<f32>, %arg15: tensor<ui32>, %arg16: tensor<ui32>):
      %17 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %18 = "stablehlo.compare"(%arg13, %17) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %19 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %20 = "stablehlo.select"(%18, %19, %arg13) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %21 = "stablehlo.compare"(%arg13, %arg13) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %22 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
      %23 = "stablehlo.select"(%21, %22, %20) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %24 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %25 = "stablehlo.compare"(%arg14, %24) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %26 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %27 = "stablehlo.select"(%25, %26, %arg14) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %28 = "stablehlo.compare"(%arg14, %arg14) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %29 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
      %30 = "stablehlo.select"(%28, %29, %27) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %31 = "stablehlo.compare"(%23, %30) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%31) : (tensor<i1>) -> ()
    }) : (tensor<4x5xf32>, tensor<4x5xui32>) -> (tensor<4x5xf32>, tensor<4x5xui32>)
    %16 = "stablehlo.broadcast_in_dim"(%15#1) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x5xui32>) -> tensor<4x5x1xui32>
    "func.return"(%15#0, %16) : (tensor<4x5xf32>, tensor<4x5x1xui32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "cumsum", sym_visibility = "private"}> ({
  ^bb0(%arg11: tensor<4x5xf32>):
    %13 = "func.call"(%arg11) <{callee = @cumsum_0}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%13) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, sym_name = "cumsum_0", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<4x5xf32>):
    %9 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32>
    %11 = "stablehlo.reduce_window"(%arg8, %10) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [4, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 5>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %12 = "stablehlo.add"(%arg9, %arg10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%12) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
    "func.return"(%11) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "cumsum_1", sym_visibility = "private"}> ({
  ^bb0(%arg7: tensor<4x5xf32>):
    %8 = "func.call"(%arg7) <{callee = @cumsum_2}> : (tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%8) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>) -> tensor<4x5xf32>, sym_name = "cumsum_2", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<4x5xf32>):
    %4 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32>
    %6 = "stablehlo.reduce_window"(%arg4, %5) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [0, 4]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 5>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %7 = "stablehlo.add"(%arg5, %arg6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%7) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4x5xf32>
    "func.return"(%6) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5x1xui32>, tensor<4x5xf32>) -> tensor<4x5xf32>, res_attrs = [{}], sym_name = "sort_3", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x5x1xui32>, %arg1: tensor<4x5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %2 = "stablehlo.scatter"(%1, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %3 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<4x5x1xui32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    "func.return"(%2) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
