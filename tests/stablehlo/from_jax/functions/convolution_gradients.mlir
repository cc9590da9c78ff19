"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<2x6x5x4xf32>, tensor<3x3x2x6xf32>) -> (tensor<2x6x5x4xf32>, tensor<3x3x2x6xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x6x5x4xf32>, %arg1: tensor<3x3x2x6xf32>):
    %0 = "stablehlo.convolution"(%arg0, %arg1) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<[[0, 1], [2, 2]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 1, 2>, window_reversal = array<i1: false, false>, window_strides = array<i64: 2, 1>}> : (tensor<2x6x5x4xf32>, tensor<3x3x2x6xf32>) -> tensor<2x3x5x6xf32>
    %1 = "stablehlo.multiply"(%0, %0) : (tensor<2x3x5x6xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xf32>
    %2 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3x5x6xf32>
    %4 = "stablehlo.multiply"(%3, %0) : (tensor<2x3x5x6xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xf32>
    %5 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %6 = "stablehlo.reduce"(%1, %5) <{dimensions = array<i64: 0, 1, 2, 3>}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %16 = "stablehlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%16) : (tensor<f32>) -> ()
    }) : (tensor<2x3x5x6xf32>, tensor<f32>) -> tensor<f32>
    %7 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3x5x6xf32>
    %9 = "stablehlo.multiply"(%8, %4) : (tensor<2x3x5x6xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xf32>
    %10 = "stablehlo.convolution"(%arg0, %9) <{batch_group_count = 2 : i64, dimension_numbers = #stablehlo.conv<[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<[[0, 1], [2, 2]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: false, false>, window_strides = array<i64: 1, 2>}> : (tensor<2x6x5x4xf32>, tensor<2x3x5x6xf32>) -> tensor<3x3x2x6xf32>
    %11 = "stablehlo.reshape"(%arg1) : (tensor<3x3x2x6xf32>) -> tensor<3x3x2x2x3xf32>
    %12 = "stablehlo.transpose"(%11) <{permutation = array<i64: 0, 1, 3, 2, 4>}> : (tensor<3x3x2x2x3xf32>) -> tensor<3x3x2x2x3xf32>
    %13 = "stablehlo.reshape"(%12) : (tensor<3x3x2x2x3xf32>) -> tensor<3x3x4x3xf32>
    %14 = "stablehlo.reverse"(%13) <{dimensions = array<i64: 0, 1>}> : (tensor<3x3x4x3xf32>) -> tensor<3x3x4x3xf32>
    %15 = "stablehlo.convolution"(%9, %14) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f]>, feature_group_count = 2 : i64, lhs_dilation = array<i64: 2, 1>, padding = dense<[[2, 1], [2, 2]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 1, 2>, window_reversal = array<i1: false, false>, window_strides = array<i64: 1, 1>}> : (tensor<2x3x5x6xf32>, tensor<3x3x4x3xf32>) -> tensor<2x6x5x4xf32>
    "func.return"(%15, %10) : (tensor<2x6x5x4xf32>, tensor<3x3x2x6xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
