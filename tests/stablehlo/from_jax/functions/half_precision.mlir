"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf16>) -> (tensor<4x5xf16>, tensor<4x5xf16>, tensor<4xf16>, tensor<4x4xf16>, tensor<f16>, tensor<4x5xf16>, tensor<4x2xf16>, tensor<4x5xf16>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}, {jax.result_info = "result[7]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg6: tensor<4x5xf16>):
    %20 = "stablehlo.multiply"(%arg6, %arg6) : (tensor<4x5xf16>, tensor<4x5xf16>) -> tensor<4x5xf16>
    %21 = "stablehlo.exponential"(%arg6) : (tensor<4x5xf16>) -> tensor<4x5xf16>
    %22 = "stablehlo.convert"(%arg6) : (tensor<4x5xf16>) -> tensor<4x5xf32>
    %23 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %24 = "stablehlo.reduce"(%22, %23) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %34 = "stablehlo.add"(%arg9, %arg10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%34) : (tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
    %25 = "stablehlo.convert"(%24) : (tensor<4xf32>) -> tensor<4xf16>
    %26 = "stablehlo.transpose"(%arg6) <{permutation = array<i64: 1, 0>}> : (tensor<4x5xf16>) -> tensor<5x4xf16>
    %27 = "stablehlo.dot_general"(%arg6, %26) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<4x5xf16>, tensor<5x4xf16>) -> tensor<4x4xf16>
    %28 = "stablehlo.constant"() <{value = dense<0xFC00> : tensor<f16>}> : () -> tensor<f16>
    %29 = "stablehlo.reduce"(%arg6, %28) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg7: tensor<f16>, %arg8: tensor<f16>):
      %33 = "stablehlo.maximum"(%arg7, %arg8) : (tensor<f16>, tensor<f16>) -> tensor<f16>
      "stablehlo.return"(%33) : (tensor<f16>) -> ()
    }) : (tensor<4x5xf16>, tensor<f16>) -> tensor<f16>
    %30 = "func.call"(%arg6) <{callee = @sort}> : (tensor<4x5xf16>) -> tensor<4x5xf16>
    %31:2 = "chlo.top_k"(%arg6) <{k = 2 : i64}> : (tensor<4x5xf16>) -> (tensor<4x2xf16>, tensor<4x2xi32>)
    %32 = "func.call"(%arg6) <{callee = @cummax}> : (tensor<4x5xf16>) -> tensor<4x5xf16>
    "func.return"(%20, %21, %25, %27, %29, %30, %31#0, %32) : (tensor<4x5xf16>, tensor<4x5xf16>, tensor<4xf16>, tensor<4x4xf16>, tensor<f16>, tensor<4x5xf16>, tensor<4x2xf16>, tensor<4x5xf16>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf16>) -> tensor<4x5xf16>, res_attrs = [{}], sym_name = "sort", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<4x5xf16>):
    %4 = "stablehlo.sort"(%arg3) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg4: tensor<f16>, %arg5: tensor<f16>):
      %5 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f16>}> : () -> tensor<f16>
      %6 = "stablehlo.compare"(%arg4, %5) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f16>, tensor<f16>) -> tensor<i1>
      %7 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f16>}> : () -> tensor<f16>
      %8 = "stablehlo.select"(%6, %7, %arg4) : (tensor<i1>, tensor<f16>, tensor<f16>) -> tensor<f16>
      %9 = "stablehlo.compare"(%arg4, %arg4) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f16>, tensor<f16>) -> tensor<i1>
      %10 = "stablehlo.constant"() <{value = dense<0x7E00> : tensor<f16>}> : () -> tensor<f16>
      %11 = "stablehlo.select"(%9, %10, %8) : (tensor<i1>, tensor<f16>, tensor<f16>) -> tensor<f16>
      %12 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f16>}> : () -> tensor<f16>
      %13 = "stablehlo.compare"(%arg5, %12) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f16>, tensor<f16>) -> tensor<i1>
      %14 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f16>}> : () -> tensor<f16>
      %15 = "stablehlo.select"(%13, %14, %arg5) : (tensor<i1>, tensor<f16>, tensor<f16>) -> tensor<f16>
      %16 = "stablehlo.compare"(%arg5, %arg5) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f16>, tensor<f16>) -> tensor<i1>
      %17 = "stablehlo.constant"() <{value = dense<0x7E00> : tensor<f16>}> : () -> tensor<f16>
      %18 = "stablehlo.select"(%16, %17, %15) : (tensor<i1>, tensor<f16>, tensor<f16>) -> tensor<f16>
      %19 = "stablehlo.compare"(%11, %18) <{compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f16>, tensor<f16>) -> tensor<i1>
      "stablehlo.return"(%19) : (tensor<i1>) -> ()
    }) : (tensor<4x5xf16>) -> tensor<4x5xf16>
    "func.return"(%4) : (tensor<4x5xf16>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf16>) -> tensor<4x5xf16>, sym_name = "cummax", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x5xf16>):
    %0 = "stablehlo.constant"() <{value = dense<0xFC00> : tensor<f16>}> : () -> tensor<f16>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f16>) -> tensor<f16>
    %2 = "stablehlo.reduce_window"(%arg0, %1) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [4, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 5>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg1: tensor<f16>, %arg2: tensor<f16>):
      %3 = "stablehlo.maximum"(%arg1, %arg2) : (tensor<f16>, tensor<f16>) -> tensor<f16>
      "stablehlo.return"(%3) : (tensor<f16>) -> ()
    }) : (tensor<4x5xf16>, tensor<f16>) -> tensor<4x5xf16>
    "func.return"(%2) : (tensor<4x5xf16>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
