"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<6xui8>, tensor<6xi8>) -> (tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xi1>, tensor<6xi8>, tensor<6xi8>, tensor<6xi8>, tensor<i32>, tensor<ui8>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}, {jax.result_info = "result[7]"}, {jax.result_info = "result[8]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg2: tensor<6xui8>, %arg3: tensor<6xi8>):
    %3 = "stablehlo.add"(%arg2, %arg2) : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
    %4 = "stablehlo.constant"() <{value = dense<255> : tensor<ui8>}> : () -> tensor<ui8>
    %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64>}> : (tensor<ui8>) -> tensor<6xui8>
    %6 = "stablehlo.subtract"(%5, %arg2) : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
    %7 = "stablehlo.constant"() <{value = dense<7> : tensor<i32>}> : () -> tensor<i32>
    %8 = "func.call"(%arg2, %7) <{callee = @floor_divide}> : (tensor<6xui8>, tensor<i32>) -> tensor<6xui8>
    %9 = "stablehlo.constant"() <{value = dense<100> : tensor<ui8>}> : () -> tensor<ui8>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<ui8>) -> tensor<6xui8>
    %11 = "stablehlo.compare"(%arg2, %10) <{compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xi1>
    %12 = "stablehlo.multiply"(%arg3, %arg3) : (tensor<6xi8>, tensor<6xi8>) -> tensor<6xi8>
    %13 = "stablehlo.negate"(%arg3) : (tensor<6xi8>) -> tensor<6xi8>
    %14 = "stablehlo.abs"(%arg3) : (tensor<6xi8>) -> tensor<6xi8>
    %15 = "stablehlo.convert"(%arg3) : (tensor<6xi8>) -> tensor<6xi32>
    %16 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %17 = "stablehlo.reduce"(%15, %16) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg6: tensor<i32>, %arg7: tensor<i32>):
      %21 = "stablehlo.add"(%arg6, %arg7) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%21) : (tensor<i32>) -> ()
    }) : (tensor<6xi32>, tensor<i32>) -> tensor<i32>
    %18 = "stablehlo.constant"() <{value = dense<0> : tensor<ui8>}> : () -> tensor<ui8>
    %19 = "stablehlo.reduce"(%arg2, %18) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg4: tensor<ui8>, %arg5: tensor<ui8>):
      %20 = "stablehlo.maximum"(%arg4, %arg5) : (tensor<ui8>, tensor<ui8>) -> tensor<ui8>
      "stablehlo.return"(%20) : (tensor<ui8>) -> ()
    }) : (tensor<6xui8>, tensor<ui8>) -> tensor<ui8>
    "func.return"(%3, %6, %8, %11, %12, %13, %14, %17, %19) : (tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xi1>, tensor<6xi8>, tensor<6xi8>, tensor<6xi8>, tensor<i32>, tensor<ui8>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<6xui8>, tensor<i32>) -> tensor<6xui8>, res_attrs = [{}], sym_name = "floor_divide", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<6xui8>, %arg1: tensor<i32>):
    %0 = "stablehlo.convert"(%arg1) : (tensor<i32>) -> tensor<ui8>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<ui8>) -> tensor<6xui8>
    %2 = "stablehlo.divide"(%arg0, %1) : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
    "func.return"(%2) : (tensor<6xui8>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
