"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x4xui32>, tensor<4xui32>) -> (tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xi1>, tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x4xui32>, tensor<3x4xui32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}, {jax.result_info = "result[7]"}, {jax.result_info = "result[8]"}, {jax.result_info = "result[9]"}, {jax.result_info = "result[10]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg7: tensor<3x4xui32>, %arg8: tensor<4xui32>):
    %28 = "stablehlo.broadcast_in_dim"(%arg8) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xui32>) -> tensor<1x4xui32>
    %29 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xui32>) -> tensor<3x4xui32>
    %30 = "stablehlo.add"(%arg7, %29) : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    %31 = "stablehlo.broadcast_in_dim"(%arg8) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xui32>) -> tensor<1x4xui32>
    %32 = "stablehlo.broadcast_in_dim"(%31) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xui32>) -> tensor<3x4xui32>
    %33 = "stablehlo.multiply"(%arg7, %32) : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    %34 = "func.call"(%arg7, %arg8) <{callee = @floor_divide}> : (tensor<3x4xui32>, tensor<4xui32>) -> tensor<3x4xui32>
    %35 = "func.call"(%arg7, %arg8) <{callee = @remainder}> : (tensor<3x4xui32>, tensor<4xui32>) -> tensor<3x4xui32>
    %36 = "stablehlo.broadcast_in_dim"(%arg8) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xui32>) -> tensor<1x4xui32>
    %37 = "stablehlo.broadcast_in_dim"(%36) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xui32>) -> tensor<3x4xui32>
    %38 = "stablehlo.compare"(%arg7, %37) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xi1>
    %39 = "stablehlo.broadcast_in_dim"(%arg8) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xui32>) -> tensor<1x4xui32>
    %40 = "stablehlo.broadcast_in_dim"(%39) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xui32>) -> tensor<3x4xui32>
    %41 = "stablehlo.maximum"(%arg7, %40) : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    %42 = "stablehlo.constant"() <{value = dense<3> : tensor<ui32>}> : () -> tensor<ui32>
    %43 = "stablehlo.broadcast_in_dim"(%42) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<3x4xui32>
    %44 = "stablehlo.shift_right_logical"(%arg7, %43) : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    %45 = "stablehlo.convert"(%arg7) : (tensor<3x4xui32>) -> tensor<3x4xf32>
    %46 = "stablehlo.convert"(%arg7) : (tensor<3x4xui32>) -> tensor<3x4xi32>
    %47 = "stablehlo.count_leading_zeros"(%arg7) : (tensor<3x4xui32>) -> tensor<3x4xui32>
    %48 = "stablehlo.popcnt"(%arg7) : (tensor<3x4xui32>) -> tensor<3x4xui32>
    "func.return"(%30, %33, %34, %35, %38, %41, %44, %45, %46, %47, %48) : (tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xi1>, tensor<3x4xui32>, tensor<3x4xui32>, tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x4xui32>, tensor<3x4xui32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x4xui32>, tensor<4xui32>) -> tensor<3x4xui32>, res_attrs = [{}], sym_name = "floor_divide", sym_visibility = "private"}> ({
  ^bb0(%arg5: tensor<3x4xui32>, %arg6: tensor<4xui32>):
    %25 = "stablehlo.broadcast_in_dim"(%arg6) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xui32>) -> tensor<1x4xui32>
    %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xui32>) -> tensor<3x4xui32>
    %27 = "stablehlo.divide"(%arg5, %26) : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    "func.return"(%27) : (tensor<3x4xui32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x4xui32>, tensor<4xui32>) -> tensor<3x4xui32>, res_attrs = [{}], sym_name = "remainder", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<3x4xui32>, %arg4: tensor<4xui32>):
    %1 = "stablehlo.broadcast_in_dim"(%arg4) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xui32>) -> tensor<1x4xui32>
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<1x4xui32>
    %4 = "stablehlo.compare"(%1, %3) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<1x4xui32>, tensor<1x4xui32>) -> tensor<1x4xi1>
    %5 = "stablehlo.constant"() <{value = dense<1> : tensor<ui32>}> : () -> tensor<ui32>
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<1x4xui32>
    %7 = "func.call"(%4, %6, %1) <{callee = @_where}> : (tensor<1x4xi1>, tensor<1x4xui32>, tensor<1x4xui32>) -> tensor<1x4xui32>
    %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xui32>) -> tensor<3x4xui32>
    %9 = "stablehlo.remainder"(%arg3, %8) : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    %10 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %11 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<3x4xui32>
    %12 = "stablehlo.compare"(%9, %11) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xi1>
    %13 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<3x4xui32>
    %15 = "stablehlo.compare"(%9, %14) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xi1>
    %16 = "stablehlo.constant"() <{value = dense<0> : tensor<ui32>}> : () -> tensor<ui32>
    %17 = "stablehlo.broadcast_in_dim"(%16) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<1x4xui32>
    %18 = "stablehlo.compare"(%7, %17) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<1x4xui32>, tensor<1x4xui32>) -> tensor<1x4xi1>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xi1>) -> tensor<3x4xi1>
    %20 = "stablehlo.compare"(%15, %19) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
    %21 = "stablehlo.and"(%20, %12) : (tensor<3x4xi1>, tensor<3x4xi1>) -> tensor<3x4xi1>
    %22 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x4xui32>) -> tensor<3x4xui32>
    %23 = "stablehlo.add"(%9, %22) : (tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    %24 = "stablehlo.select"(%21, %23, %9) : (tensor<3x4xi1>, tensor<3x4xui32>, tensor<3x4xui32>) -> tensor<3x4xui32>
    "func.return"(%24) : (tensor<3x4xui32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<1x4xi1>, tensor<1x4xui32>, tensor<1x4xui32>) -> tensor<1x4xui32>, res_attrs = [{}], sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<1x4xi1>, %arg1: tensor<1x4xui32>, %arg2: tensor<1x4xui32>):
    %0 = "stablehlo.select"(%arg0, %arg1, %arg2) : (tensor<1x4xi1>, tensor<1x4xui32>, tensor<1x4xui32>) -> tensor<1x4xui32>
    "func.return"(%0) : (tensor<1x4xui32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
