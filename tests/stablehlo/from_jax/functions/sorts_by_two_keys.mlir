"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<4x5xi32>, tensor<4x5xi32>, tensor<4x5xf32>) -> (tensor<4x5xi32>, tensor<4x5xi32>, tensor<4x5xf32>, tensor<5xi32>), res_attrs = [{jax.result_info = "result[0][0]"}, {jax.result_info = "result[0][1]"}, {jax.result_info = "result[0][2]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg8: tensor<4x5xi32>, %arg9: tensor<4x5xi32>, %arg10: tensor<4x5xf32>):
    %7:3 = "stablehlo.sort"(%arg8, %arg9, %arg10) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg11: tensor<i32>, %arg12: tensor<i32>, %arg13: tensor<i32>, %arg14: tensor<i32>, %arg15: tensor<f32>, %arg16: tensor<f32>):
      %13 = "stablehlo.compare"(%arg13, %arg14) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %14 = "stablehlo.compare"(%arg11, %arg12) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %15 = "stablehlo.compare"(%arg11, %arg12) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %16 = "stablehlo.and"(%15, %13) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %17 = "stablehlo.or"(%14, %16) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%17) : (tensor<i1>) -> ()
    }) : (tensor<4x5xi32>, tensor<4x5xi32>, tensor<4x5xf32>) -> (tensor<4x5xi32>, tensor<4x5xi32>, tensor<4x5xf32>)
    %8 = "stablehlo.slice"(%arg9) <{limit_indices = array<i64: 1, 5>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xi32>) -> tensor<1x5xi32>
    %9 = "stablehlo.reshape"(%8) : (tensor<1x5xi32>) -> tensor<5xi32>
    %10 = "stablehlo.slice"(%arg8) <{limit_indices = array<i64: 1, 5>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xi32>) -> tensor<1x5xi32>
    %11 = "stablehlo.reshape"(%10) : (tensor<1x5xi32>) -> tensor<5xi32>
    %12 = "func.call"(%9, %11) <{callee = @lexsort}> : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>
    "func.return"(%7#0, %7#1, %7#2, %12) : (tensor<4x5xi32>, tensor<4x5xi32>, tensor<4x5xf32>, tensor<5xi32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi32>, res_attrs = [{}], sym_name = "lexsort", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<5xi32>, %arg1: tensor<5xi32>):
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<5xi32>
    %1:3 = "stablehlo.sort"(%arg1, %arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>, %arg4: tensor<i32>, %arg5: tensor<i32>, %arg6: tensor<i32>, %arg7: tensor<i32>):
      %2 = "stablehlo.compare"(%arg4, %arg5) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %3 = "stablehlo.compare"(%arg2, %arg3) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %4 = "stablehlo.compare"(%arg2, %arg3) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %5 = "stablehlo.and"(%4, %2) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %6 = "stablehlo.or"(%3, %5) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%6) : (tensor<i1>) -> ()
    }) : (tensor<5xi32>, tensor<5xi32>, tensor<5xi32>) -> (tensor<5xi32>, tensor<5xi32>, tensor<5xi32>)
    "func.return"(%1#2) : (tensor<5xi32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
