"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x4xi1>, tensor<3x4xi1>) -> (tensor<3x4xi1>, tensor<3x4xi1>, tensor<3x4xi1>, tensor<3x4xi1>, tensor<3x4xf32>, tensor<4xi1>, tensor<i1>, tensor<3x4xi1>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}, {jax.result_info = "result[7]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x4xi1>, %arg1: tensor<3x4xi1>):
    %0 = "stablehlo.and"(%arg0, %arg1) : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
    %1 = "stablehlo.or"(%arg0, %arg1) : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
    %2 = "stablehlo.xor"(%arg0, %arg1) : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
    %3 = "stablehlo.not"(%arg0) : (tensor<3x4xi1>) -> tensor<3x4xi1>
    %4 = "stablehlo.convert"(%arg0) : (tensor<3x4xi1>) -> tensor<3x4xf32>
    %5 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
    %6 = "stablehlo.reduce"(%arg0, %5) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg4: tensor<i1>, %arg5: tensor<i1>):
      %11 = "stablehlo.and"(%arg4, %arg5) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%11) : (tensor<i1>) -> ()
    }) : (tensor<3x4xi1>, tensor<i1>) -> tensor<4xi1>
    %7 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
    %8 = "stablehlo.reduce"(%arg0, %7) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg2: tensor<i1>, %arg3: tensor<i1>):
      %10 = "stablehlo.or"(%arg2, %arg3) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%10) : (tensor<i1>) -> ()
    }) : (tensor<3x4xi1>, tensor<i1>) -> tensor<i1>
    %9 = "stablehlo.compare"(%arg0, %arg1) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
    "func.return"(%0, %1, %2, %3, %4, %6, %8, %9) : (tensor<3x4xi1>, tensor<3x4xi1>, tensor<3x4xi1>, tensor<3x4xi1>, tensor<3x4xf32>, tensor<4xi1>, tensor<i1>, tensor<3x4xi1>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
