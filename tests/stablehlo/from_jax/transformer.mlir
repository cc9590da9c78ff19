"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["batch"=2, "model"=2]>, sym_name = "mesh"}> {stablehlo.mesh = {axes = [{name = "batch", size = 2 : i64}, {name = "model", size = 2 : i64}]}} : () -> ()
  "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, {sdy.sharding = #sdy.sharding<@mesh, [{"batch"}, {}]>}], function_type = (tensor<8xf32>, tensor<16x8xf32>, tensor<16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<8xf32>, tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<12xf32>, tensor<8x12xf32>, tensor<12x8xf32>, tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4x6xi32>) -> tensor<f32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg29: tensor<8xf32>, %arg30: tensor<16x8xf32>, %arg31: tensor<16xf32>, %arg32: tensor<8x16xf32>, %arg33: tensor<8xf32>, %arg34: tensor<8xf32>, %arg35: tensor<8xf32>, %arg36: tensor<8xf32>, %arg37: tensor<2x4xf32>, %arg38: tensor<8x2x4xf32>, %arg39: tensor<8xf32>, %arg40: tensor<2x4x8xf32>, %arg41: tensor<2x4xf32>, %arg42: tensor<8x2x4xf32>, %arg43: tensor<2x4xf32>, %arg44: tensor<8x2x4xf32>, %arg45: tensor<12xf32>, %arg46: tensor<8x12xf32>, %arg47: tensor<12x8xf32>, %arg48: tensor<6x8xf32>, %arg49: tensor<8xf32>, %arg50: tensor<8xf32>, %arg51: tensor<4x6xi32>):
    %104 = "func.call"(%arg47, %arg51) <{callee = @_take}> : (tensor<12x8xf32>, tensor<4x6xi32>) -> tensor<4x6x8xf32>
    %105 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<6xi32>
    %106 = "func.call"(%arg48, %105) <{callee = @_take_0}> : (tensor<6x8xf32>, tensor<6xi32>) -> tensor<6x8xf32>
    %107 = "stablehlo.broadcast_in_dim"(%106) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<6x8xf32>) -> tensor<1x6x8xf32>
    %108 = "stablehlo.broadcast_in_dim"(%107) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x6x8xf32>) -> tensor<4x6x8xf32>
    %109 = "stablehlo.add"(%104, %108) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %110 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<6xi32>
    %111 = "stablehlo.broadcast_in_dim"(%110) <{broadcast_dimensions = array<i64: 1>}> : (tensor<6xi32>) -> tensor<4x6xi32>
    %112 = "stablehlo.broadcast_in_dim"(%111) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xi32>) -> tensor<4x6x1xi32>
    %113 = "stablehlo.broadcast_in_dim"(%111) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<4x6xi32>) -> tensor<4x1x6xi32>
    %114 = "stablehlo.broadcast_in_dim"(%112) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xi32>) -> tensor<4x6x6xi32>
    %115 = "stablehlo.broadcast_in_dim"(%113) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x1x6xi32>) -> tensor<4x6x6xi32>
    %116 = "stablehlo.compare"(%114, %115) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<4x6x6xi32>, tensor<4x6x6xi32>) -> tensor<4x6x6xi1>
    %117 = "stablehlo.broadcast_in_dim"(%116) <{broadcast_dimensions = array<i64: 0, 2, 3>}> : (tensor<4x6x6xi1>) -> tensor<4x1x6x6xi1>
    %118 = "stablehlo.convert"(%117) : (tensor<4x1x6x6xi1>) -> tensor<4x1x6x6xf32>
    %119 = "chlo.square"(%109) : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %120 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %121 = "stablehlo.reduce"(%109, %120) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg72: tensor<f32>, %arg73: tensor<f32>):
      %324 = "stablehlo.add"(%arg72, %arg73) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%324) : (tensor<f32>) -> ()
    }) : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
    %122 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %123 = "stablehlo.broadcast_in_dim"(%122) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %124 = "stablehlo.divide"(%121, %123) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %125 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %126 = "stablehlo.reduce"(%119, %125) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg70: tensor<f32>, %arg71: tensor<f32>):
      %323 = "stablehlo.add"(%arg70, %arg71) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%323) : (tensor<f32>) -> ()
    }) : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
    %127 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %128 = "stablehlo.broadcast_in_dim"(%127) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %129 = "stablehlo.divide"(%126, %128) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %130 = "chlo.square"(%124) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %131 = "stablehlo.subtract"(%129, %130) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %132 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %133 = "stablehlo.broadcast_in_dim"(%132) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %134 = "stablehlo.maximum"(%133, %131) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %135 = "stablehlo.broadcast_in_dim"(%124) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>) -> tensor<4x6x1xf32>
    %136 = "stablehlo.broadcast_in_dim"(%134) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>) -> tensor<4x6x1xf32>
    %137 = "stablehlo.broadcast_in_dim"(%135) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xf32>) -> tensor<4x6x8xf32>
    %138 = "stablehlo.subtract"(%109, %137) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %139 = "stablehlo.constant"() <{value = dense<9.99999997E-7> : tensor<f32>}> : () -> tensor<f32>
    %140 = "stablehlo.broadcast_in_dim"(%139) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x1xf32>
    %141 = "stablehlo.add"(%136, %140) : (tensor<4x6x1xf32>, tensor<4x6x1xf32>) -> tensor<4x6x1xf32>
    %142 = "stablehlo.rsqrt"(%141) : (tensor<4x6x1xf32>) -> tensor<4x6x1xf32>
    %143 = "stablehlo.reshape"(%arg34) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %144 = "stablehlo.broadcast_in_dim"(%142) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xf32>) -> tensor<4x6x8xf32>
    %145 = "stablehlo.broadcast_in_dim"(%143) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %146 = "stablehlo.multiply"(%144, %145) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %147 = "stablehlo.multiply"(%138, %146) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %148 = "stablehlo.reshape"(%arg33) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %149 = "stablehlo.broadcast_in_dim"(%148) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %150 = "stablehlo.add"(%147, %149) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %151 = "stablehlo.dot_general"(%150, %arg42) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x8xf32>, tensor<8x2x4xf32>) -> tensor<4x6x2x4xf32>
    %152 = "stablehlo.reshape"(%arg41) : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %153 = "stablehlo.broadcast_in_dim"(%152) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x1x2x4xf32>) -> tensor<4x6x2x4xf32>
    %154 = "stablehlo.add"(%151, %153) : (tensor<4x6x2x4xf32>, tensor<4x6x2x4xf32>) -> tensor<4x6x2x4xf32>
    %155 = "stablehlo.dot_general"(%150, %arg38) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x8xf32>, tensor<8x2x4xf32>) -> tensor<4x6x2x4xf32>
    %156 = "stablehlo.reshape"(%arg37) : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %157 = "stablehlo.broadcast_in_dim"(%156) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x1x2x4xf32>) -> tensor<4x6x2x4xf32>
    %158 = "stablehlo.add"(%155, %157) : (tensor<4x6x2x4xf32>, tensor<4x6x2x4xf32>) -> tensor<4x6x2x4xf32>
    %159 = "stablehlo.dot_general"(%150, %arg44) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x8xf32>, tensor<8x2x4xf32>) -> tensor<4x6x2x4xf32>
    %160 = "stablehlo.reshape"(%arg43) : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %161 = "stablehlo.broadcast_in_dim"(%160) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x1x2x4xf32>) -> tensor<4x6x2x4xf32>
    %162 = "stablehlo.add"(%159, %161) : (tensor<4x6x2x4xf32>, tensor<4x6x2x4xf32>) -> tensor<4x6x2x4xf32>
    %163 = "stablehlo.constant"() <{value = dense<4.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %164 = "stablehlo.sqrt"(%163) : (tensor<f32>) -> tensor<f32>
    %165 = "stablehlo.convert"(%164) : (tensor<f32>) -> tensor<f32>
    %166 = "stablehlo.broadcast_in_dim"(%165) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x2x4xf32>
    %167 = "stablehlo.divide"(%154, %166) : (tensor<4x6x2x4xf32>, tensor<4x6x2x4xf32>) -> tensor<4x6x2x4xf32>
    %168 = "stablehlo.dot_general"(%167, %158) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x2x4xf32>, tensor<4x6x2x4xf32>) -> tensor<4x2x6x6xf32>
    %169 = "stablehlo.constant"() <{value = dense<-3.40282347E+38> : tensor<f32>}> : () -> tensor<f32>
    %170 = "func.call"(%118, %168, %169) <{callee = @_where_2}> : (tensor<4x1x6x6xf32>, tensor<4x2x6x6xf32>, tensor<f32>) -> tensor<4x2x6x6xf32>
    %171 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %172 = "stablehlo.reduce"(%170, %171) <{dimensions = array<i64: 3>}> ({
    ^bb0(%arg68: tensor<f32>, %arg69: tensor<f32>):
      %322 = "stablehlo.maximum"(%arg68, %arg69) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%322) : (tensor<f32>) -> ()
    }) : (tensor<4x2x6x6xf32>, tensor<f32>) -> tensor<4x2x6xf32>
    %173 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %174 = "stablehlo.broadcast_in_dim"(%173) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x2x6xf32>
    %175 = "stablehlo.maximum"(%174, %172) : (tensor<4x2x6xf32>, tensor<4x2x6xf32>) -> tensor<4x2x6xf32>
    %176 = "stablehlo.broadcast_in_dim"(%175) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x2x6xf32>) -> tensor<4x2x6x1xf32>
    %177 = "stablehlo.broadcast_in_dim"(%176) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<4x2x6x1xf32>) -> tensor<4x2x6x6xf32>
    %178 = "stablehlo.subtract"(%170, %177) : (tensor<4x2x6x6xf32>, tensor<4x2x6x6xf32>) -> tensor<4x2x6x6xf32>
    %179 = "stablehlo.exponential"(%178) : (tensor<4x2x6x6xf32>) -> tensor<4x2x6x6xf32>
    %180 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %181 = "stablehlo.reduce"(%179, %180) <{dimensions = array<i64: 3>}> ({
    ^bb0(%arg66: tensor<f32>, %arg67: tensor<f32>):
      %321 = "stablehlo.add"(%arg66, %arg67) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%321) : (tensor<f32>) -> ()
    }) : (tensor<4x2x6x6xf32>, tensor<f32>) -> tensor<4x2x6xf32>
    %182 = "stablehlo.broadcast_in_dim"(%181) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x2x6xf32>) -> tensor<4x2x6x1xf32>
    %183 = "stablehlo.broadcast_in_dim"(%182) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<4x2x6x1xf32>) -> tensor<4x2x6x6xf32>
    %184 = "stablehlo.divide"(%179, %183) : (tensor<4x2x6x6xf32>, tensor<4x2x6x6xf32>) -> tensor<4x2x6x6xf32>
    %185 = "stablehlo.dot_general"(%162, %184) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [3]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x2x4xf32>, tensor<4x2x6x6xf32>) -> tensor<4x2x4x6xf32>
    %186 = "stablehlo.transpose"(%185) <{permutation = array<i64: 0, 3, 1, 2>}> : (tensor<4x2x4x6xf32>) -> tensor<4x6x2x4xf32>
    %187 = "stablehlo.dot_general"(%186, %arg40) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2, 3], rhs_contracting_dimensions = [0, 1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x2x4xf32>, tensor<2x4x8xf32>) -> tensor<4x6x8xf32>
    %188 = "stablehlo.reshape"(%arg39) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %189 = "stablehlo.broadcast_in_dim"(%188) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %190 = "stablehlo.add"(%187, %189) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %191 = "stablehlo.add"(%109, %190) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %192 = "chlo.square"(%191) : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %193 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %194 = "stablehlo.reduce"(%191, %193) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg64: tensor<f32>, %arg65: tensor<f32>):
      %320 = "stablehlo.add"(%arg64, %arg65) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%320) : (tensor<f32>) -> ()
    }) : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
    %195 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %196 = "stablehlo.broadcast_in_dim"(%195) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %197 = "stablehlo.divide"(%194, %196) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %198 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %199 = "stablehlo.reduce"(%192, %198) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg62: tensor<f32>, %arg63: tensor<f32>):
      %319 = "stablehlo.add"(%arg62, %arg63) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%319) : (tensor<f32>) -> ()
    }) : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
    %200 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %201 = "stablehlo.broadcast_in_dim"(%200) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %202 = "stablehlo.divide"(%199, %201) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %203 = "chlo.square"(%197) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %204 = "stablehlo.subtract"(%202, %203) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %205 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %206 = "stablehlo.broadcast_in_dim"(%205) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %207 = "stablehlo.maximum"(%206, %204) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %208 = "stablehlo.broadcast_in_dim"(%197) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>) -> tensor<4x6x1xf32>
    %209 = "stablehlo.broadcast_in_dim"(%207) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>) -> tensor<4x6x1xf32>
    %210 = "stablehlo.broadcast_in_dim"(%208) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xf32>) -> tensor<4x6x8xf32>
    %211 = "stablehlo.subtract"(%191, %210) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %212 = "stablehlo.constant"() <{value = dense<9.99999997E-7> : tensor<f32>}> : () -> tensor<f32>
    %213 = "stablehlo.broadcast_in_dim"(%212) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x1xf32>
    %214 = "stablehlo.add"(%209, %213) : (tensor<4x6x1xf32>, tensor<4x6x1xf32>) -> tensor<4x6x1xf32>
    %215 = "stablehlo.rsqrt"(%214) : (tensor<4x6x1xf32>) -> tensor<4x6x1xf32>
    %216 = "stablehlo.reshape"(%arg36) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %217 = "stablehlo.broadcast_in_dim"(%215) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xf32>) -> tensor<4x6x8xf32>
    %218 = "stablehlo.broadcast_in_dim"(%216) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %219 = "stablehlo.multiply"(%217, %218) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %220 = "stablehlo.multiply"(%211, %219) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %221 = "stablehlo.reshape"(%arg35) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %222 = "stablehlo.broadcast_in_dim"(%221) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %223 = "stablehlo.add"(%220, %222) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %224 = "stablehlo.dot_general"(%223, %arg32) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x8xf32>, tensor<8x16xf32>) -> tensor<4x6x16xf32>
    %225 = "stablehlo.reshape"(%arg31) : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %226 = "stablehlo.broadcast_in_dim"(%225) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x16xf32>) -> tensor<4x6x16xf32>
    %227 = "stablehlo.add"(%224, %226) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %228 = "stablehlo.multiply"(%227, %227) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %229 = "stablehlo.multiply"(%228, %227) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %230 = "stablehlo.constant"() <{value = dense<4.471500e-02> : tensor<f32>}> : () -> tensor<f32>
    %231 = "stablehlo.broadcast_in_dim"(%230) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x16xf32>
    %232 = "stablehlo.multiply"(%231, %229) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %233 = "stablehlo.add"(%227, %232) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %234 = "stablehlo.constant"() <{value = dense<0.797884583> : tensor<f32>}> : () -> tensor<f32>
    %235 = "stablehlo.broadcast_in_dim"(%234) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x16xf32>
    %236 = "stablehlo.multiply"(%235, %233) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %237 = "stablehlo.tanh"(%236) : (tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %238 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %239 = "stablehlo.broadcast_in_dim"(%238) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x16xf32>
    %240 = "stablehlo.add"(%239, %237) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %241 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %242 = "stablehlo.broadcast_in_dim"(%241) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x16xf32>
    %243 = "stablehlo.multiply"(%242, %240) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %244 = "stablehlo.multiply"(%227, %243) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
    %245 = "stablehlo.dot_general"(%244, %arg30) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x16xf32>, tensor<16x8xf32>) -> tensor<4x6x8xf32>
    %246 = "stablehlo.reshape"(%arg29) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %247 = "stablehlo.broadcast_in_dim"(%246) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %248 = "stablehlo.add"(%245, %247) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %249 = "stablehlo.add"(%191, %248) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %250 = "chlo.square"(%249) : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %251 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %252 = "stablehlo.reduce"(%249, %251) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg60: tensor<f32>, %arg61: tensor<f32>):
      %318 = "stablehlo.add"(%arg60, %arg61) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%318) : (tensor<f32>) -> ()
    }) : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
    %253 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %254 = "stablehlo.broadcast_in_dim"(%253) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %255 = "stablehlo.divide"(%252, %254) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %256 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %257 = "stablehlo.reduce"(%250, %256) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg58: tensor<f32>, %arg59: tensor<f32>):
      %317 = "stablehlo.add"(%arg58, %arg59) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%317) : (tensor<f32>) -> ()
    }) : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
    %258 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %259 = "stablehlo.broadcast_in_dim"(%258) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %260 = "stablehlo.divide"(%257, %259) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %261 = "chlo.square"(%255) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %262 = "stablehlo.subtract"(%260, %261) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %263 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %264 = "stablehlo.broadcast_in_dim"(%263) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %265 = "stablehlo.maximum"(%264, %262) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %266 = "stablehlo.broadcast_in_dim"(%255) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>) -> tensor<4x6x1xf32>
    %267 = "stablehlo.broadcast_in_dim"(%265) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>) -> tensor<4x6x1xf32>
    %268 = "stablehlo.broadcast_in_dim"(%266) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xf32>) -> tensor<4x6x8xf32>
    %269 = "stablehlo.subtract"(%249, %268) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %270 = "stablehlo.constant"() <{value = dense<9.99999997E-7> : tensor<f32>}> : () -> tensor<f32>
    %271 = "stablehlo.broadcast_in_dim"(%270) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x1xf32>
    %272 = "stablehlo.add"(%267, %271) : (tensor<4x6x1xf32>, tensor<4x6x1xf32>) -> tensor<4x6x1xf32>
    %273 = "stablehlo.rsqrt"(%272) : (tensor<4x6x1xf32>) -> tensor<4x6x1xf32>
    %274 = "stablehlo.reshape"(%arg50) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %275 = "stablehlo.broadcast_in_dim"(%273) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xf32>) -> tensor<4x6x8xf32>
    %276 = "stablehlo.broadcast_in_dim"(%274) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %277 = "stablehlo.multiply"(%275, %276) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %278 = "stablehlo.multiply"(%269, %277) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %279 = "stablehlo.reshape"(%arg49) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %280 = "stablehlo.broadcast_in_dim"(%279) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x8xf32>) -> tensor<4x6x8xf32>
    %281 = "stablehlo.add"(%278, %280) : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    %282 = "stablehlo.dot_general"(%281, %arg46) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x6x8xf32>, tensor<8x12xf32>) -> tensor<4x6x12xf32>
    %283 = "stablehlo.reshape"(%arg45) : (tensor<12xf32>) -> tensor<1x1x12xf32>
    %284 = "stablehlo.broadcast_in_dim"(%283) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x12xf32>) -> tensor<4x6x12xf32>
    %285 = "stablehlo.add"(%282, %284) : (tensor<4x6x12xf32>, tensor<4x6x12xf32>) -> tensor<4x6x12xf32>
    %286 = "func.call"(%arg51) <{callee = @_roll_static}> : (tensor<4x6xi32>) -> tensor<4x6xi32>
    %287 = "stablehlo.broadcast_in_dim"(%286) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xi32>) -> tensor<4x6x1xi32>
    %288 = "func.call"(%285, %287) <{callee = @take_along_axis}> : (tensor<4x6x12xf32>, tensor<4x6x1xi32>) -> tensor<4x6x1xf32>
    %289 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %290 = "func.call"(%288, %289) <{callee = @_take_3}> : (tensor<4x6x1xf32>, tensor<i32>) -> tensor<4x6xf32>
    %291 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %292 = "stablehlo.reduce"(%285, %291) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg56: tensor<f32>, %arg57: tensor<f32>):
      %316 = "stablehlo.maximum"(%arg56, %arg57) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%316) : (tensor<f32>) -> ()
    }) : (tensor<4x6x12xf32>, tensor<f32>) -> tensor<4x6xf32>
    %293 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %294 = "stablehlo.broadcast_in_dim"(%293) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %295 = "stablehlo.maximum"(%294, %292) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %296 = "stablehlo.is_finite"(%295) : (tensor<4x6xf32>) -> tensor<4x6xi1>
    %297 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %298 = "stablehlo.broadcast_in_dim"(%297) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %299 = "stablehlo.select"(%296, %295, %298) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %300 = "stablehlo.broadcast_in_dim"(%299) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>) -> tensor<4x6x1xf32>
    %301 = "stablehlo.broadcast_in_dim"(%300) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<4x6x1xf32>) -> tensor<4x6x12xf32>
    %302 = "stablehlo.subtract"(%285, %301) : (tensor<4x6x12xf32>, tensor<4x6x12xf32>) -> tensor<4x6x12xf32>
    %303 = "stablehlo.exponential"(%302) : (tensor<4x6x12xf32>) -> tensor<4x6x12xf32>
    %304 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %305 = "stablehlo.reduce"(%303, %304) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg54: tensor<f32>, %arg55: tensor<f32>):
      %315 = "stablehlo.add"(%arg54, %arg55) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%315) : (tensor<f32>) -> ()
    }) : (tensor<4x6x12xf32>, tensor<f32>) -> tensor<4x6xf32>
    %306 = "stablehlo.abs"(%305) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %307 = "stablehlo.log"(%306) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %308 = "stablehlo.add"(%307, %299) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %309 = "stablehlo.subtract"(%308, %290) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %310 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %311 = "stablehlo.reduce"(%309, %310) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg52: tensor<f32>, %arg53: tensor<f32>):
      %314 = "stablehlo.add"(%arg52, %arg53) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%314) : (tensor<f32>) -> ()
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
    %312 = "stablehlo.constant"() <{value = dense<2.400000e+01> : tensor<f32>}> : () -> tensor<f32>
    %313 = "stablehlo.divide"(%311, %312) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "func.return"(%313) : (tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<12x8xf32>, tensor<4x6xi32>) -> tensor<4x6x8xf32>, res_attrs = [{}], sym_name = "_take", sym_visibility = "private"}> ({
  ^bb0(%arg25: tensor<12x8xf32>, %arg26: tensor<4x6xi32>):
    %80 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %81 = "stablehlo.broadcast_in_dim"(%80) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x6xi32>
    %82 = "stablehlo.compare"(%arg26, %81) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    %83 = "stablehlo.constant"() <{value = dense<12> : tensor<i32>}> : () -> tensor<i32>
    %84 = "stablehlo.broadcast_in_dim"(%83) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x6xi32>
    %85 = "stablehlo.add"(%arg26, %84) : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi32>
    %86 = "func.call"(%82, %85, %arg26) <{callee = @_where}> : (tensor<4x6xi1>, tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi32>
    %87 = "stablehlo.broadcast_in_dim"(%86) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xi32>) -> tensor<4x6x1xi32>
    %88 = "stablehlo.constant"() <{value = dense<11> : tensor<1xi32>}> : () -> tensor<1xi32>
    %89 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %90 = "stablehlo.broadcast_in_dim"(%89) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x6x1xi32>
    %91 = "stablehlo.compare"(%87, %90) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<4x6x1xi32>, tensor<4x6x1xi32>) -> tensor<4x6x1xi1>
    %92 = "stablehlo.broadcast_in_dim"(%88) <{broadcast_dimensions = array<i64: 2>}> : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %93 = "stablehlo.broadcast_in_dim"(%92) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x1xi32>) -> tensor<4x6x1xi32>
    %94 = "stablehlo.compare"(%87, %93) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<4x6x1xi32>, tensor<4x6x1xi32>) -> tensor<4x6x1xi1>
    %95 = "stablehlo.and"(%91, %94) : (tensor<4x6x1xi1>, tensor<4x6x1xi1>) -> tensor<4x6x1xi1>
    %96 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %97 = "stablehlo.reduce"(%95, %96) <{dimensions = array<i64: 2>}> ({
    ^bb0(%arg27: tensor<i1>, %arg28: tensor<i1>):
      %103 = "stablehlo.and"(%arg27, %arg28) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%103) : (tensor<i1>) -> ()
    }) : (tensor<4x6x1xi1>, tensor<i1>) -> tensor<4x6xi1>
    %98 = "stablehlo.gather"(%arg25, %87) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<12x8xf32>, tensor<4x6x1xi32>) -> tensor<4x6x8xf32>
    %99 = "stablehlo.broadcast_in_dim"(%97) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x6xi1>) -> tensor<4x6x8xi1>
    %100 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %101 = "stablehlo.broadcast_in_dim"(%100) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x8xf32>
    %102 = "stablehlo.select"(%99, %98, %101) : (tensor<4x6x8xi1>, tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
    "func.return"(%102) : (tensor<4x6x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4x6xi1>, tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi32>, res_attrs = [{}], sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg22: tensor<4x6xi1>, %arg23: tensor<4x6xi32>, %arg24: tensor<4x6xi32>):
    %79 = "stablehlo.select"(%arg22, %arg23, %arg24) : (tensor<4x6xi1>, tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi32>
    "func.return"(%79) : (tensor<4x6xi32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<6x8xf32>, tensor<6xi32>) -> tensor<6x8xf32>, res_attrs = [{}], sym_name = "_take_0", sym_visibility = "private"}> ({
  ^bb0(%arg18: tensor<6x8xf32>, %arg19: tensor<6xi32>):
    %55 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %56 = "stablehlo.broadcast_in_dim"(%55) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6xi32>
    %57 = "stablehlo.compare"(%arg19, %56) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
    %58 = "stablehlo.constant"() <{value = dense<6> : tensor<i32>}> : () -> tensor<i32>
    %59 = "stablehlo.broadcast_in_dim"(%58) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6xi32>
    %60 = "stablehlo.add"(%arg19, %59) : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    %61 = "func.call"(%57, %60, %arg19) <{callee = @_where_1}> : (tensor<6xi1>, tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    %62 = "stablehlo.broadcast_in_dim"(%61) <{broadcast_dimensions = array<i64: 0>}> : (tensor<6xi32>) -> tensor<6x1xi32>
    %63 = "stablehlo.constant"() <{value = dense<5> : tensor<1xi32>}> : () -> tensor<1xi32>
    %64 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %65 = "stablehlo.broadcast_in_dim"(%64) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6x1xi32>
    %66 = "stablehlo.compare"(%62, %65) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<6x1xi32>, tensor<6x1xi32>) -> tensor<6x1xi1>
    %67 = "stablehlo.broadcast_in_dim"(%63) <{broadcast_dimensions = array<i64: 1>}> : (tensor<1xi32>) -> tensor<1x1xi32>
    %68 = "stablehlo.broadcast_in_dim"(%67) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x1xi32>) -> tensor<6x1xi32>
    %69 = "stablehlo.compare"(%62, %68) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<6x1xi32>, tensor<6x1xi32>) -> tensor<6x1xi1>
    %70 = "stablehlo.and"(%66, %69) : (tensor<6x1xi1>, tensor<6x1xi1>) -> tensor<6x1xi1>
    %71 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %72 = "stablehlo.reduce"(%70, %71) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg20: tensor<i1>, %arg21: tensor<i1>):
      %78 = "stablehlo.and"(%arg20, %arg21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%78) : (tensor<i1>) -> ()
    }) : (tensor<6x1xi1>, tensor<i1>) -> tensor<6xi1>
    %73 = "stablehlo.gather"(%arg18, %62) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<6x8xf32>, tensor<6x1xi32>) -> tensor<6x8xf32>
    %74 = "stablehlo.broadcast_in_dim"(%72) <{broadcast_dimensions = array<i64: 0>}> : (tensor<6xi1>) -> tensor<6x8xi1>
    %75 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %76 = "stablehlo.broadcast_in_dim"(%75) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x8xf32>
    %77 = "stablehlo.select"(%74, %73, %76) : (tensor<6x8xi1>, tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    "func.return"(%77) : (tensor<6x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<6xi1>, tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>, res_attrs = [{}], sym_name = "_where_1", sym_visibility = "private"}> ({
  ^bb0(%arg15: tensor<6xi1>, %arg16: tensor<6xi32>, %arg17: tensor<6xi32>):
    %54 = "stablehlo.select"(%arg15, %arg16, %arg17) : (tensor<6xi1>, tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    "func.return"(%54) : (tensor<6xi32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4x1x6x6xf32>, tensor<4x2x6x6xf32>, tensor<f32>) -> tensor<4x2x6x6xf32>, res_attrs = [{}], sym_name = "_where_2", sym_visibility = "private"}> ({
  ^bb0(%arg12: tensor<4x1x6x6xf32>, %arg13: tensor<4x2x6x6xf32>, %arg14: tensor<f32>):
    %48 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %49 = "stablehlo.broadcast_in_dim"(%48) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x1x6x6xf32>
    %50 = "stablehlo.compare"(%arg12, %49) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<4x1x6x6xf32>, tensor<4x1x6x6xf32>) -> tensor<4x1x6x6xi1>
    %51 = "stablehlo.broadcast_in_dim"(%50) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<4x1x6x6xi1>) -> tensor<4x2x6x6xi1>
    %52 = "stablehlo.broadcast_in_dim"(%arg14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x2x6x6xf32>
    %53 = "stablehlo.select"(%51, %arg13, %52) : (tensor<4x2x6x6xi1>, tensor<4x2x6x6xf32>, tensor<4x2x6x6xf32>) -> tensor<4x2x6x6xf32>
    "func.return"(%53) : (tensor<4x2x6x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x6xi32>) -> tensor<4x6xi32>, res_attrs = [{}], sym_name = "_roll_static", sym_visibility = "private"}> ({
  ^bb0(%arg11: tensor<4x6xi32>):
    %45 = "stablehlo.slice"(%arg11) <{limit_indices = array<i64: 4, 6>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 1>}> : (tensor<4x6xi32>) -> tensor<4x5xi32>
    %46 = "stablehlo.slice"(%arg11) <{limit_indices = array<i64: 4, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x6xi32>) -> tensor<4x1xi32>
    %47 = "stablehlo.concatenate"(%45, %46) <{dimension = 1 : i64}> : (tensor<4x5xi32>, tensor<4x1xi32>) -> tensor<4x6xi32>
    "func.return"(%47) : (tensor<4x6xi32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x6x12xf32>, tensor<4x6x1xi32>) -> tensor<4x6x1xf32>, res_attrs = [{}], sym_name = "take_along_axis", sym_visibility = "private"}> ({
  ^bb0(%arg7: tensor<4x6x12xf32>, %arg8: tensor<4x6x1xi32>):
    %22 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %23 = "stablehlo.broadcast_in_dim"(%22) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x6x1xi32>
    %24 = "stablehlo.compare"(%arg8, %23) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<4x6x1xi32>, tensor<4x6x1xi32>) -> tensor<4x6x1xi1>
    %25 = "stablehlo.constant"() <{value = dense<12> : tensor<i32>}> : () -> tensor<i32>
    %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x6x1xi32>
    %27 = "stablehlo.add"(%arg8, %26) : (tensor<4x6x1xi32>, tensor<4x6x1xi32>) -> tensor<4x6x1xi32>
    %28 = "stablehlo.select"(%24, %27, %arg8) : (tensor<4x6x1xi1>, tensor<4x6x1xi32>, tensor<4x6x1xi32>) -> tensor<4x6x1xi32>
    %29 = "stablehlo.reshape"(%28) : (tensor<4x6x1xi32>) -> tensor<4x6x1x1xi32>
    %30 = "stablehlo.constant"() <{value = dense<11> : tensor<1xi32>}> : () -> tensor<1xi32>
    %31 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %32 = "stablehlo.broadcast_in_dim"(%31) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x6x1x1xi32>
    %33 = "stablehlo.compare"(%29, %32) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<4x6x1x1xi32>, tensor<4x6x1x1xi32>) -> tensor<4x6x1x1xi1>
    %34 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64: 3>}> : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %35 = "stablehlo.broadcast_in_dim"(%34) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x1x1x1xi32>) -> tensor<4x6x1x1xi32>
    %36 = "stablehlo.compare"(%29, %35) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<4x6x1x1xi32>, tensor<4x6x1x1xi32>) -> tensor<4x6x1x1xi1>
    %37 = "stablehlo.and"(%33, %36) : (tensor<4x6x1x1xi1>, tensor<4x6x1x1xi1>) -> tensor<4x6x1x1xi1>
    %38 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %39 = "stablehlo.reduce"(%37, %38) <{dimensions = array<i64: 3>}> ({
    ^bb0(%arg9: tensor<i1>, %arg10: tensor<i1>):
      %44 = "stablehlo.and"(%arg9, %arg10) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%44) : (tensor<i1>) -> ()
    }) : (tensor<4x6x1x1xi1>, tensor<i1>) -> tensor<4x6x1xi1>
    %40 = "stablehlo.gather"(%arg7, %29) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<4x6x12xf32>, tensor<4x6x1x1xi32>) -> tensor<4x6x1xf32>
    %41 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %42 = "stablehlo.broadcast_in_dim"(%41) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6x1xf32>
    %43 = "stablehlo.select"(%39, %40, %42) : (tensor<4x6x1xi1>, tensor<4x6x1xf32>, tensor<4x6x1xf32>) -> tensor<4x6x1xf32>
    "func.return"(%43) : (tensor<4x6x1xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x6x1xf32>, tensor<i32>) -> tensor<4x6xf32>, res_attrs = [{}], sym_name = "_take_3", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<4x6x1xf32>, %arg4: tensor<i32>):
    %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %2 = "stablehlo.compare"(%arg4, %1) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %3 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %4 = "stablehlo.add"(%arg4, %3) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %5 = "func.call"(%2, %4, %arg4) <{callee = @_where_4}> : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<1xi32>
    %7 = "stablehlo.constant"() <{value = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %8 = "stablehlo.convert"(%6) : (tensor<1xi32>) -> tensor<1xi32>
    %9 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<1xi32>
    %11 = "stablehlo.compare"(%8, %10) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %12 = "stablehlo.compare"(%8, %7) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %13 = "stablehlo.and"(%11, %12) : (tensor<1xi1>, tensor<1xi1>) -> tensor<1xi1>
    %14 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %15 = "stablehlo.reduce"(%13, %14) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg5: tensor<i1>, %arg6: tensor<i1>):
      %21 = "stablehlo.and"(%arg5, %arg6) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%21) : (tensor<i1>) -> ()
    }) : (tensor<1xi1>, tensor<i1>) -> tensor<i1>
    %16 = "stablehlo.gather"(%arg3, %8) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], collapsed_slice_dims = [2], start_index_map = [2]>, indices_are_sorted = false, slice_sizes = array<i64: 4, 6, 1>}> : (tensor<4x6x1xf32>, tensor<1xi32>) -> tensor<4x6xf32>
    %17 = "stablehlo.broadcast_in_dim"(%15) <{broadcast_dimensions = array<i64>}> : (tensor<i1>) -> tensor<4x6xi1>
    %18 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x6xf32>
    %20 = "stablehlo.select"(%17, %16, %19) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    "func.return"(%20) : (tensor<4x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>, res_attrs = [{}], sym_name = "_where_4", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>):
    %0 = "stablehlo.select"(%arg0, %arg1, %arg2) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    "func.return"(%0) : (tensor<i32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
