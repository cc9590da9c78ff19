"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<4x5xi32>) -> (tensor<4x5xi32>, tensor<4x5xf32>, tensor<4x5xi1>, tensor<4x5xf32>, tensor<4x5xi1>, tensor<4x5xi1>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4x5xf32>, %arg1: tensor<4x5xi32>):
    %0 = "stablehlo.convert"(%arg0) : (tensor<4x5xf32>) -> tensor<4x5xi32>
    %1 = "stablehlo.convert"(%arg1) : (tensor<4x5xi32>) -> tensor<4x5xf32>
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x5xi32>
    %4 = "stablehlo.compare"(%arg1, %3) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<4x5xi32>, tensor<4x5xi32>) -> tensor<4x5xi1>
    %5 = "stablehlo.convert"(%arg0) : (tensor<4x5xf32>) -> tensor<4x5xbf16>
    %6 = "stablehlo.convert"(%5) : (tensor<4x5xbf16>) -> tensor<4x5xf32>
    %7 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x5xf32>
    %9 = "stablehlo.compare"(%arg0, %8) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xi1>
    %10 = "stablehlo.convert"(%9) : (tensor<4x5xi1>) -> tensor<4x5xi1>
    %11 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x5xi32>
    %13 = "stablehlo.compare"(%arg1, %12) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<4x5xi32>, tensor<4x5xi32>) -> tensor<4x5xi1>
    %14 = "stablehlo.convert"(%13) : (tensor<4x5xi1>) -> tensor<4x5xi1>
    "func.return"(%0, %1, %4, %6, %10, %14) : (tensor<4x5xi32>, tensor<4x5xf32>, tensor<4x5xi1>, tensor<4x5xf32>, tensor<4x5xi1>, tensor<4x5xi1>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
