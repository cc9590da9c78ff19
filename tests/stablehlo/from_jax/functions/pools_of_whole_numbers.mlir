"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<2x6x5x4xi32>, tensor<6xui32>, tensor<6xui8>) -> (tensor<2x3x5x4xi32>, tensor<2x3x5x4xi32>, tensor<5xui32>, tensor<5xui8>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x6x5x4xi32>, %arg1: tensor<6xui32>, %arg2: tensor<6xui8>):
    %0 = "stablehlo.constant"() <{value = dense<-2147483648> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<i32>
    %2 = "stablehlo.reduce_window"(%arg0, %1) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 3, 1>, window_strides = array<i64: 1, 2, 1, 1>}> ({
    ^bb0(%arg9: tensor<i32>, %arg10: tensor<i32>):
      %13 = "stablehlo.maximum"(%arg9, %arg10) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%13) : (tensor<i32>) -> ()
    }) : (tensor<2x6x5x4xi32>, tensor<i32>) -> tensor<2x3x5x4xi32>
    %3 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<i32>
    %5 = "stablehlo.reduce_window"(%arg0, %4) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 3, 1>, window_strides = array<i64: 1, 2, 1, 1>}> ({
    ^bb0(%arg7: tensor<i32>, %arg8: tensor<i32>):
      %12 = "stablehlo.add"(%arg7, %arg8) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%12) : (tensor<i32>) -> ()
    }) : (tensor<2x6x5x4xi32>, tensor<i32>) -> tensor<2x3x5x4xi32>
    %6 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %7 = "stablehlo.reduce_window"(%arg1, %6) <{base_dilations = array<i64: 1>, padding = dense<0> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>}> ({
    ^bb0(%arg5: tensor<ui32>, %arg6: tensor<ui32>):
      %11 = "stablehlo.add"(%arg5, %arg6) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
      "stablehlo.return"(%11) : (tensor<ui32>) -> ()
    }) : (tensor<6xui32>, tensor<ui32>) -> tensor<5xui32>
    %8 = "stablehlo.constant"() <{value = dense<0> : tensor<ui8>}> : () -> tensor<ui8>
    %9 = "stablehlo.reduce_window"(%arg2, %8) <{base_dilations = array<i64: 1>, padding = dense<0> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>}> ({
    ^bb0(%arg3: tensor<ui8>, %arg4: tensor<ui8>):
      %10 = "stablehlo.add"(%arg3, %arg4) : (tensor<ui8>, tensor<ui8>) -> tensor<ui8>
      "stablehlo.return"(%10) : (tensor<ui8>) -> ()
    }) : (tensor<6xui8>, tensor<ui8>) -> tensor<5xui8>
    "func.return"(%2, %5, %7, %9) : (tensor<2x3x5x4xi32>, tensor<2x3x5x4xi32>, tensor<5xui32>, tensor<5xui8>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
