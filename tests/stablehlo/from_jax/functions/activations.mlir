"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}, {jax.result_info = "result[5]"}, {jax.result_info = "result[6]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg11: tensor<3x4xf32>):
    %53 = "stablehlo.multiply"(%arg11, %arg11) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %54 = "stablehlo.multiply"(%53, %arg11) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %55 = "stablehlo.constant"() <{value = dense<4.471500e-02> : tensor<f32>}> : () -> tensor<f32>
    %56 = "stablehlo.broadcast_in_dim"(%55) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %57 = "stablehlo.multiply"(%56, %54) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %58 = "stablehlo.add"(%arg11, %57) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %59 = "stablehlo.constant"() <{value = dense<0.797884583> : tensor<f32>}> : () -> tensor<f32>
    %60 = "stablehlo.broadcast_in_dim"(%59) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %61 = "stablehlo.multiply"(%60, %58) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %62 = "stablehlo.tanh"(%61) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %63 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %64 = "stablehlo.broadcast_in_dim"(%63) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %65 = "stablehlo.add"(%64, %62) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %66 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %67 = "stablehlo.broadcast_in_dim"(%66) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %68 = "stablehlo.multiply"(%67, %65) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %69 = "stablehlo.multiply"(%arg11, %68) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %70 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %71 = "stablehlo.broadcast_in_dim"(%70) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %72 = "stablehlo.multiply"(%71, %arg11) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %73 = "stablehlo.negate"(%arg11) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %74 = "stablehlo.constant"() <{value = dense<0.707106769> : tensor<f32>}> : () -> tensor<f32>
    %75 = "stablehlo.broadcast_in_dim"(%74) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %76 = "stablehlo.multiply"(%73, %75) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %77 = "chlo.erfc"(%76) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %78 = "stablehlo.multiply"(%72, %77) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %79 = "func.call"(%arg11) <{callee = @silu}> : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %80 = "func.call"(%arg11) <{callee = @softplus}> : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %81 = "func.call"(%arg11) <{callee = @elu}> : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %82 = "func.call"(%arg11) <{callee = @leaky_relu}> : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %83 = "func.call"(%arg11) <{callee = @relu6}> : (tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%69, %78, %79, %80, %81, %82, %83) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x4xf32>) -> tensor<3x4xf32>, res_attrs = [{}], sym_name = "silu", sym_visibility = "private"}> ({
  ^bb0(%arg10: tensor<3x4xf32>):
    %44 = "stablehlo.negate"(%arg10) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %45 = "stablehlo.exponential"(%44) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %46 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %47 = "stablehlo.broadcast_in_dim"(%46) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %48 = "stablehlo.add"(%47, %45) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %49 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %50 = "stablehlo.broadcast_in_dim"(%49) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %51 = "stablehlo.divide"(%50, %48) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %52 = "stablehlo.multiply"(%arg10, %51) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%52) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x4xf32>) -> tensor<3x4xf32>, res_attrs = [{}], sym_name = "softplus", sym_visibility = "private"}> ({
  ^bb0(%arg9: tensor<3x4xf32>):
    %30 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %31 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %32 = "stablehlo.maximum"(%arg9, %31) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %33 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %34 = "stablehlo.subtract"(%arg9, %33) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %35 = "stablehlo.compare"(%34, %34) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
    %36 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %37 = "stablehlo.add"(%arg9, %36) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %38 = "stablehlo.abs"(%34) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %39 = "stablehlo.negate"(%38) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %40 = "stablehlo.exponential"(%39) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %41 = "stablehlo.log_plus_one"(%40) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %42 = "stablehlo.add"(%32, %41) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %43 = "stablehlo.select"(%35, %37, %42) : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%43) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x4xf32>) -> tensor<3x4xf32>, res_attrs = [{}], sym_name = "elu", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<3x4xf32>):
    %17 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %19 = "stablehlo.compare"(%arg8, %18) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
    %20 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %22 = "stablehlo.compare"(%arg8, %21) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
    %23 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %24 = "func.call"(%22, %23, %arg8) <{callee = @_where}> : (tensor<3x4xi1>, tensor<f32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %25 = "stablehlo.exponential_minus_one"(%24) : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %26 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %27 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %28 = "stablehlo.multiply"(%27, %25) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %29 = "func.call"(%19, %arg8, %28) <{callee = @_where_0}> : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%29) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<3x4xi1>, tensor<f32>, tensor<3x4xf32>) -> tensor<3x4xf32>, res_attrs = [{}], sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg5: tensor<3x4xi1>, %arg6: tensor<f32>, %arg7: tensor<3x4xf32>):
    %14 = "stablehlo.convert"(%arg6) : (tensor<f32>) -> tensor<f32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %16 = "stablehlo.select"(%arg5, %15, %arg7) : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%16) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>, res_attrs = [{}], sym_name = "_where_0", sym_visibility = "private"}> ({
  ^bb0(%arg2: tensor<3x4xi1>, %arg3: tensor<3x4xf32>, %arg4: tensor<3x4xf32>):
    %13 = "stablehlo.select"(%arg2, %arg3, %arg4) : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%13) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x4xf32>) -> tensor<3x4xf32>, res_attrs = [{}], sym_name = "leaky_relu", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<3x4xf32>):
    %6 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %8 = "stablehlo.compare"(%arg1, %7) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
    %9 = "stablehlo.constant"() <{value = dense<0.00999999977> : tensor<f32>}> : () -> tensor<f32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %11 = "stablehlo.multiply"(%10, %arg1) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %12 = "func.call"(%8, %arg1, %11) <{callee = @_where_0}> : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%12) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x4xf32>) -> tensor<3x4xf32>, res_attrs = [{}], sym_name = "relu6", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<3x4xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %2 = "stablehlo.maximum"(%arg0, %1) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %3 = "stablehlo.constant"() <{value = dense<6.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x4xf32>
    %5 = "stablehlo.minimum"(%2, %4) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "func.return"(%5) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
