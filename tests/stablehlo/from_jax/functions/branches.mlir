"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<i1>, tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<i1>, %arg1: tensor<4x5xf32>):
    %0 = "stablehlo.convert"(%arg0) : (tensor<i1>) -> tensor<i32>
    %1 = "stablehlo.case"(%0) ({
      %14 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
      %16 = "stablehlo.subtract"(%arg1, %15) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
      "stablehlo.return"(%16) : (tensor<4x5xf32>) -> ()
    }, {
      %11 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
      %13 = "stablehlo.multiply"(%arg1, %12) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
      "stablehlo.return"(%13) : (tensor<4x5xf32>) -> ()
    }) : (tensor<i32>) -> tensor<4x5xf32>
    %2 = "stablehlo.convert"(%arg0) : (tensor<i1>) -> tensor<i32>
    %3 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %4 = "stablehlo.multiply"(%3, %2) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %5 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %6 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
    %7 = "stablehlo.clamp"(%5, %4, %6) : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %8 = "stablehlo.case"(%7) ({
      "stablehlo.return"(%arg1) : (tensor<4x5xf32>) -> ()
    }, {
      %10 = "stablehlo.negate"(%arg1) : (tensor<4x5xf32>) -> tensor<4x5xf32>
      "stablehlo.return"(%10) : (tensor<4x5xf32>) -> ()
    }, {
      %9 = "stablehlo.multiply"(%arg1, %arg1) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
      "stablehlo.return"(%9) : (tensor<4x5xf32>) -> ()
    }) : (tensor<i32>) -> tensor<4x5xf32>
    "func.return"(%1, %8) : (tensor<4x5xf32>, tensor<4x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
