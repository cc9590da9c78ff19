"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<5xui32>, tensor<ui32>) -> (tensor<5xui32>, tensor<5xui32>, tensor<2xui32>, tensor<i32>, tensor<5xui32>, tensor<ui32>, tensor<5xui32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg14: tensor<5xui32>, %arg15: tensor<ui32>):
    %23 = "func.call"(%arg14) <{callee = @sort}> : (tensor<5xui32>) -> tensor<5xui32>
    %24 = "func.call"(%arg14) <{callee = @cummax}> : (tensor<5xui32>) -> tensor<5xui32>
    %25:2 = "chlo.top_k"(%arg14) <{k = 2 : i64}> : (tensor<5xui32>) -> (tensor<2xui32>, tensor<2xi32>)
    %26 = "func.call"(%arg14) <{callee = @argmax}> : (tensor<5xui32>) -> tensor<i32>
    %27 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %28 = "stablehlo.broadcast_in_dim"(%27) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<1xi32>
    %29 = "stablehlo.scatter"(%arg14, %28, %arg15) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%arg18: tensor<ui32>, %arg19: tensor<ui32>):
      %36 = "stablehlo.maximum"(%arg18, %arg19) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      "stablehlo.return"(%36) : (tensor<ui32>) -> ()
    }) : (tensor<5xui32>, tensor<1xi32>, tensor<ui32>) -> tensor<5xui32>
    %30 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %31 = "stablehlo.reduce"(%arg14, %30) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg16: tensor<ui32>, %arg17: tensor<ui32>):
      %35 = "stablehlo.maximum"(%arg16, %arg17) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      "stablehlo.return"(%35) : (tensor<ui32>) -> ()
    }) : (tensor<5xui32>, tensor<ui32>) -> tensor<ui32>
    %32 = "stablehlo.constant"() <{value = dense<9> : tensor<ui32>}> : () -> tensor<ui32>
    %33 = "stablehlo.add"(%arg15, %32) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
    %34 = "func.call"(%arg14, %arg15, %33) <{callee = @clip}> : (tensor<5xui32>, tensor<ui32>, tensor<ui32>) -> tensor<5xui32>
    "func.return"(%23, %24, %25#0, %26, %29, %31, %34) : (tensor<5xui32>, tensor<5xui32>, tensor<2xui32>, tensor<i32>, tensor<5xui32>, tensor<ui32>, tensor<5xui32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<5xui32>) -> tensor<5xui32>, res_attrs = [{}], sym_name = "sort", sym_visibility = "private"}> ({
  ^bb0(%arg11: tensor<5xui32>):
    %21 = "stablehlo.sort"(%arg11) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg12: tensor<ui32>, %arg13: tensor<ui32>):
      %22 = "stablehlo.compare"(%arg12, %arg13) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      "stablehlo.return"(%22) : (tensor<i1>) -> ()
    }) : (tensor<5xui32>) -> tensor<5xui32>
    "func.return"(%21) : (tensor<5xui32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xui32>) -> tensor<5xui32>, sym_name = "cummax", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<5xui32>):
    %17 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<ui32>
    %19 = "stablehlo.reduce_window"(%arg8, %18) <{base_dilations = array<i64: 1>, padding = dense<[[4, 0]]> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 5>, window_strides = array<i64: 1>}> ({
    ^bb0(%arg9: tensor<ui32>, %arg10: tensor<ui32>):
      %20 = "stablehlo.maximum"(%arg9, %arg10) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      "stablehlo.return"(%20) : (tensor<ui32>) -> ()
    }) : (tensor<5xui32>, tensor<ui32>) -> tensor<5xui32>
    "func.return"(%19) : (tensor<5xui32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xui32>) -> tensor<i32>, sym_name = "argmax", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<5xui32>):
    %4 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<5xi32>
    %5 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %6 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %7:2 = "stablehlo.reduce"(%arg3, %4, %5, %6) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg4: tensor<ui32>, %arg5: tensor<i32>, %arg6: tensor<ui32>, %arg7: tensor<i32>):
      %8 = "stablehlo.compare"(%arg4, %arg6) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %9 = "stablehlo.compare"(%arg4, %arg4) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %10 = "stablehlo.or"(%8, %9) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %11 = "stablehlo.compare"(%arg4, %arg6) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %12 = "stablehlo.compare"(%arg5, %arg7) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %13 = "stablehlo.and"(%11, %12) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %14 = "stablehlo.or"(%10, %13) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %15 = "stablehlo.select"(%10, %arg4, %arg6) : (tensor<i1>, tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      %16 = "stablehlo.select"(%14, %arg5, %arg7) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%15, %16) : (tensor<ui32>, tensor<i32>) -> ()
    }) : (tensor<5xui32>, tensor<5xi32>, tensor<ui32>, tensor<i32>) -> (tensor<ui32>, tensor<i32>)
    "func.return"(%7#1) : (tensor<i32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<5xui32>, tensor<ui32>, tensor<ui32>) -> tensor<5xui32>, res_attrs = [{}], sym_name = "clip", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<5xui32>, %arg1: tensor<ui32>, %arg2: tensor<ui32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<5xui32>
    %1 = "stablehlo.maximum"(%0, %arg0) : (tensor<5xui32>, tensor<5xui32>) -> tensor<5xui32>
    %2 = "stablehlo.broadcast_in_dim"(%arg2) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<5xui32>
    %3 = "stablehlo.minimum"(%2, %1) : (tensor<5xui32>, tensor<5xui32>) -> tensor<5xui32>
    "func.return"(%3) : (tensor<5xui32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
