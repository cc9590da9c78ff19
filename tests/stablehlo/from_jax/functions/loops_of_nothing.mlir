"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<i1>, tensor<4x5xf32>) -> tensor<4x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg2: tensor<i1>, %arg3: tensor<4x5xf32>):
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %4:3 = "stablehlo.while"(%arg3, %3, %2) ({
    ^bb0(%arg7: tensor<4x5xf32>, %arg8: tensor<i32>, %arg9: tensor<i32>):
      %9 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %10 = "stablehlo.compare"(%arg8, %9) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%10) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg4: tensor<4x5xf32>, %arg5: tensor<i32>, %arg6: tensor<i32>):
      %6 = "func.call"(%arg4, %arg6) <{callee = @closed_call}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<i32>
      %7 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %8 = "stablehlo.add"(%arg5, %7) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg4, %8, %6) : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> ()
    }) : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> (tensor<4x5xf32>, tensor<i32>, tensor<i32>)
    %5 = "stablehlo.convert"(%arg2) : (tensor<i1>) -> tensor<i32>
    "stablehlo.case"(%5) ({
      "stablehlo.return"() : () -> ()
    }, {
      "stablehlo.return"() : () -> ()
    }) : (tensor<i32>) -> ()
    "func.return"(%arg3) : (tensor<4x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<i32>, res_attrs = [{}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x5xf32>, %arg1: tensor<i32>):
    %0 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.add"(%arg1, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "func.return"(%1) : (tensor<i32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
