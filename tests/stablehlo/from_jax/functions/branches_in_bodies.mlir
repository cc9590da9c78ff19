"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<i1>, tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<i1>, %arg1: tensor<4x5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %1:4 = "stablehlo.while"(%arg0, %0, %arg1, %arg1) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<i32>, %arg8: tensor<4x5xf32>, %arg9: tensor<4x5xf32>):
      %26 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %27 = "stablehlo.compare"(%arg7, %26) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%27) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg2: tensor<i1>, %arg3: tensor<i32>, %arg4: tensor<4x5xf32>, %arg5: tensor<4x5xf32>):
      %2 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %3 = "stablehlo.add"(%arg3, %2) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %4 = "stablehlo.convert"(%arg2) : (tensor<i1>) -> tensor<i32>
      %5 = "stablehlo.case"(%4) ({
        %23 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
        %24 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
        %25 = "stablehlo.subtract"(%arg4, %24) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
        "stablehlo.return"(%25) : (tensor<4x5xf32>) -> ()
      }, {
        %20 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
        %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
        %22 = "stablehlo.multiply"(%arg4, %21) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
        "stablehlo.return"(%22) : (tensor<4x5xf32>) -> ()
      }) : (tensor<i32>) -> tensor<4x5xf32>
      %6 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
      %7 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %8 = "stablehlo.clamp"(%6, %arg3, %7) : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<i32>
      %9 = "stablehlo.case"(%8) ({
        %17 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
        %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
        %19 = "stablehlo.add"(%arg5, %18) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
        "stablehlo.return"(%19) : (tensor<4x5xf32>) -> ()
      }, {
        %14 = "stablehlo.constant"() <{value = dense<3.000000e+00> : tensor<f32>}> : () -> tensor<f32>
        %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
        %16 = "stablehlo.multiply"(%arg5, %15) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
        "stablehlo.return"(%16) : (tensor<4x5xf32>) -> ()
      }, {
        %11 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
        %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
        %13 = "stablehlo.subtract"(%arg5, %12) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
        "stablehlo.return"(%13) : (tensor<4x5xf32>) -> ()
      }, {
        %10 = "stablehlo.negate"(%arg5) : (tensor<4x5xf32>) -> tensor<4x5xf32>
        "stablehlo.return"(%10) : (tensor<4x5xf32>) -> ()
      }) : (tensor<i32>) -> tensor<4x5xf32>
      "stablehlo.return"(%arg2, %3, %5, %9) : (tensor<i1>, tensor<i32>, tensor<4x5xf32>, tensor<4x5xf32>) -> ()
    }) : (tensor<i1>, tensor<i32>, tensor<4x5xf32>, tensor<4x5xf32>) -> (tensor<i1>, tensor<i32>, tensor<4x5xf32>, tensor<4x5xf32>)
    "func.return"(%1#2, %1#3) : (tensor<4x5xf32>, tensor<4x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
