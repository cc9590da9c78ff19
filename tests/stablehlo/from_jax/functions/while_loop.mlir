"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<i32>, tensor<4x5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4x5xf32>):
    %0 = "stablehlo.abs"(%arg0) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %2:2 = "stablehlo.while"(%1, %0) ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<4x5xf32>):
      %8 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %9 = "stablehlo.reduce"(%arg4, %8) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
        %12 = "stablehlo.add"(%arg5, %arg6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%12) : (tensor<f32>) -> ()
      }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<f32>
      %10 = "stablehlo.constant"() <{value = dense<1.000000e+02> : tensor<f32>}> : () -> tensor<f32>
      %11 = "stablehlo.compare"(%9, %10) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%11) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<4x5xf32>):
      %3 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %4 = "stablehlo.add"(%arg1, %3) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %5 = "stablehlo.constant"() <{value = dense<1.500000e+00> : tensor<f32>}> : () -> tensor<f32>
      %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
      %7 = "stablehlo.multiply"(%arg2, %6) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
      "stablehlo.return"(%4, %7) : (tensor<i32>, tensor<4x5xf32>) -> ()
    }) : (tensor<i32>, tensor<4x5xf32>) -> (tensor<i32>, tensor<4x5xf32>)
    "func.return"(%2#0, %2#1) : (tensor<i32>, tensor<4x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
