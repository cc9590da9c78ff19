"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<5xf32>) -> (tensor<5xi32>, tensor<5xui32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<5xf32>):
    %0 = "stablehlo.bitcast_convert"(%arg0) : (tensor<5xf32>) -> tensor<5xi32>
    %1 = "stablehlo.bitcast_convert"(%arg0) : (tensor<5xf32>) -> tensor<5xui32>
    %2 = "stablehlo.constant"() <{value = dense<9> : tensor<ui32>}> : () -> tensor<ui32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> tensor<5xui32>
    %4 = "stablehlo.shift_right_logical"(%1, %3) : (tensor<5xui32>, tensor<5xui32>) -> tensor<5xui32>
    "func.return"(%0, %4) : (tensor<5xi32>, tensor<5xui32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
