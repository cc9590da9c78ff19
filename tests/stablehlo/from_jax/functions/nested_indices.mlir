"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> tensor<f32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg17: tensor<4x5xf32>):
    %30 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %31 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %32 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %33:4 = "stablehlo.while"(%arg17, %32, %30, %31) ({
    ^bb0(%arg22: tensor<4x5xf32>, %arg23: tensor<i32>, %arg24: tensor<i32>, %arg25: tensor<f32>):
      %37 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %38 = "stablehlo.compare"(%arg23, %37) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%38) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg18: tensor<4x5xf32>, %arg19: tensor<i32>, %arg20: tensor<i32>, %arg21: tensor<f32>):
      %34:2 = "func.call"(%arg18, %arg20, %arg21) <{callee = @closed_call}> : (tensor<4x5xf32>, tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
      %35 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %36 = "stablehlo.add"(%arg19, %35) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg18, %36, %34#0, %34#1) : (tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<f32>) -> ()
    }) : (tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<f32>)
    "func.return"(%33#3) : (tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x5xf32>, tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<4x5xf32>, %arg5: tensor<i32>, %arg6: tensor<f32>):
    %20 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %21 = "stablehlo.add"(%arg5, %20) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %22 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %23 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %24:5 = "stablehlo.while"(%arg5, %arg4, %23, %22, %arg6) ({
    ^bb0(%arg12: tensor<i32>, %arg13: tensor<4x5xf32>, %arg14: tensor<i32>, %arg15: tensor<i32>, %arg16: tensor<f32>):
      %28 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
      %29 = "stablehlo.compare"(%arg14, %28) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%29) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg7: tensor<i32>, %arg8: tensor<4x5xf32>, %arg9: tensor<i32>, %arg10: tensor<i32>, %arg11: tensor<f32>):
      %25:2 = "func.call"(%arg7, %arg8, %arg10, %arg11) <{callee = @closed_call_0}> : (tensor<i32>, tensor<4x5xf32>, tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>)
      %26 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %27 = "stablehlo.add"(%arg9, %26) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg7, %arg8, %27, %25#0, %25#1) : (tensor<i32>, tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<f32>) -> ()
    }) : (tensor<i32>, tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<4x5xf32>, tensor<i32>, tensor<i32>, tensor<f32>)
    "func.return"(%21, %24#4) : (tensor<i32>, tensor<f32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<i32>, tensor<4x5xf32>, tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>), res_attrs = [{}, {}], sym_name = "closed_call_0", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<i32>, %arg1: tensor<4x5xf32>, %arg2: tensor<i32>, %arg3: tensor<f32>):
    %0 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.add"(%arg2, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %2 = "stablehlo.convert"(%arg0) : (tensor<i32>) -> tensor<i32>
    %3 = "stablehlo.convert"(%arg2) : (tensor<i32>) -> tensor<i32>
    %4 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %5 = "stablehlo.compare"(%2, %4) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %6 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
    %7 = "stablehlo.add"(%2, %6) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %8 = "stablehlo.select"(%5, %7, %2) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %9 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %10 = "stablehlo.compare"(%3, %9) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %11 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
    %12 = "stablehlo.add"(%3, %11) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %13 = "stablehlo.select"(%10, %12, %3) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %14 = "stablehlo.dynamic_slice"(%arg1, %8, %13) <{slice_sizes = array<i64: 1, 1>}> : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
    %15 = "stablehlo.reshape"(%14) : (tensor<1x1xf32>) -> tensor<f32>
    %16 = "stablehlo.convert"(%arg0) : (tensor<i32>) -> tensor<f32>
    %17 = "stablehlo.multiply"(%15, %16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %18 = "stablehlo.convert"(%arg3) : (tensor<f32>) -> tensor<f32>
    %19 = "stablehlo.add"(%18, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "func.return"(%1, %19) : (tensor<i32>, tensor<f32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
