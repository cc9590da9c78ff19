"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5xf32>) -> (tensor<6x7xf32>, tensor<5x7xf32>, tensor<7x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}, {jax.result_info = "result[3]"}, {jax.result_info = "result[4]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg10: tensor<4x5xf32>):
    %36 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %37 = "func.call"(%arg10, %36) <{callee = @_pad}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<6x7xf32>
    %38 = "stablehlo.constant"() <{value = dense<7> : tensor<i32>}> : () -> tensor<i32>
    %39 = "func.call"(%arg10, %38) <{callee = @_pad_0}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<5x7xf32>
    %40 = "stablehlo.constant"() <{value = dense<-1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %41 = "stablehlo.pad"(%arg10, %40) <{edge_padding_high = array<i64: -1, 2>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 1, 0>}> : (tensor<4x5xf32>, tensor<f32>) -> tensor<7x7xf32>
    %42 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %43 = "func.call"(%arg10, %42) <{callee = @_pad_1}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<6x7xf32>
    %44 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %45 = "func.call"(%arg10, %44) <{callee = @_pad_2}> : (tensor<4x5xf32>, tensor<i32>) -> tensor<6x7xf32>
    "func.return"(%37, %39, %41, %43, %45) : (tensor<6x7xf32>, tensor<5x7xf32>, tensor<7x7xf32>, tensor<6x7xf32>, tensor<6x7xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<6x7xf32>, res_attrs = [{}], sym_name = "_pad", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<4x5xf32>, %arg9: tensor<i32>):
    %34 = "stablehlo.convert"(%arg9) : (tensor<i32>) -> tensor<f32>
    %35 = "stablehlo.pad"(%arg8, %34) <{edge_padding_high = array<i64: 1, 1>, edge_padding_low = array<i64: 1, 1>, interior_padding = array<i64: 0, 0>}> : (tensor<4x5xf32>, tensor<f32>) -> tensor<6x7xf32>
    "func.return"(%35) : (tensor<6x7xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<5x7xf32>, res_attrs = [{}], sym_name = "_pad_0", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<4x5xf32>, %arg7: tensor<i32>):
    %32 = "stablehlo.convert"(%arg7) : (tensor<i32>) -> tensor<f32>
    %33 = "stablehlo.pad"(%arg6, %32) <{edge_padding_high = array<i64: 1, 0>, edge_padding_low = array<i64: 0, 2>, interior_padding = array<i64: 0, 0>}> : (tensor<4x5xf32>, tensor<f32>) -> tensor<5x7xf32>
    "func.return"(%33) : (tensor<5x7xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<6x7xf32>, res_attrs = [{}], sym_name = "_pad_1", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<4x5xf32>, %arg5: tensor<i32>):
    %18 = "stablehlo.slice"(%arg4) <{limit_indices = array<i64: 1, 5>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x5xf32>
    %19 = "stablehlo.broadcast_in_dim"(%18) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<1x5xf32>) -> tensor<1x1x5xf32>
    %20 = "stablehlo.reshape"(%19) : (tensor<1x1x5xf32>) -> tensor<1x5xf32>
    %21 = "stablehlo.slice"(%arg4) <{limit_indices = array<i64: 4, 5>, start_indices = array<i64: 3, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x5xf32>
    %22 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<1x5xf32>) -> tensor<1x1x5xf32>
    %23 = "stablehlo.reshape"(%22) : (tensor<1x1x5xf32>) -> tensor<1x5xf32>
    %24 = "stablehlo.concatenate"(%20, %arg4, %23) <{dimension = 0 : i64}> : (tensor<1x5xf32>, tensor<4x5xf32>, tensor<1x5xf32>) -> tensor<6x5xf32>
    %25 = "stablehlo.slice"(%24) <{limit_indices = array<i64: 6, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<6x5xf32>) -> tensor<6x1xf32>
    %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %27 = "stablehlo.reshape"(%26) : (tensor<6x1x1xf32>) -> tensor<6x1xf32>
    %28 = "stablehlo.slice"(%24) <{limit_indices = array<i64: 6, 5>, start_indices = array<i64: 0, 4>, strides = array<i64: 1, 1>}> : (tensor<6x5xf32>) -> tensor<6x1xf32>
    %29 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x1x1xf32>
    %30 = "stablehlo.reshape"(%29) : (tensor<6x1x1xf32>) -> tensor<6x1xf32>
    %31 = "stablehlo.concatenate"(%27, %24, %30) <{dimension = 1 : i64}> : (tensor<6x1xf32>, tensor<6x5xf32>, tensor<6x1xf32>) -> tensor<6x7xf32>
    "func.return"(%31) : (tensor<6x7xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4x5xf32>, tensor<i32>) -> tensor<6x7xf32>, res_attrs = [{}], sym_name = "_pad_2", sym_visibility = "private"}> ({
  ^bb0(%arg2: tensor<4x5xf32>, %arg3: tensor<i32>):
    %2 = "stablehlo.slice"(%arg2) <{limit_indices = array<i64: 1, 5>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x5xf32>
    %3 = "stablehlo.slice"(%arg2) <{limit_indices = array<i64: 2, 5>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 1>}> : (tensor<4x5xf32>) -> tensor<1x5xf32>
    %4 = "func.call"(%3) <{callee = @_flip}> : (tensor<1x5xf32>) -> tensor<1x5xf32>
    %5 = "stablehlo.concatenate"(%4, %arg2) <{dimension = 0 : i64}> : (tensor<1x5xf32>, tensor<4x5xf32>) -> tensor<5x5xf32>
    %6 = "stablehlo.slice"(%5) <{limit_indices = array<i64: 5, 5>, start_indices = array<i64: 4, 0>, strides = array<i64: 1, 1>}> : (tensor<5x5xf32>) -> tensor<1x5xf32>
    %7 = "stablehlo.slice"(%5) <{limit_indices = array<i64: 4, 5>, start_indices = array<i64: 3, 0>, strides = array<i64: 1, 1>}> : (tensor<5x5xf32>) -> tensor<1x5xf32>
    %8 = "func.call"(%7) <{callee = @_flip}> : (tensor<1x5xf32>) -> tensor<1x5xf32>
    %9 = "stablehlo.concatenate"(%5, %8) <{dimension = 0 : i64}> : (tensor<5x5xf32>, tensor<1x5xf32>) -> tensor<6x5xf32>
    %10 = "stablehlo.slice"(%9) <{limit_indices = array<i64: 6, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<6x5xf32>) -> tensor<6x1xf32>
    %11 = "stablehlo.slice"(%9) <{limit_indices = array<i64: 6, 2>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 1>}> : (tensor<6x5xf32>) -> tensor<6x1xf32>
    %12 = "func.call"(%11) <{callee = @_flip_3}> : (tensor<6x1xf32>) -> tensor<6x1xf32>
    %13 = "stablehlo.concatenate"(%12, %9) <{dimension = 1 : i64}> : (tensor<6x1xf32>, tensor<6x5xf32>) -> tensor<6x6xf32>
    %14 = "stablehlo.slice"(%13) <{limit_indices = array<i64: 6, 6>, start_indices = array<i64: 0, 5>, strides = array<i64: 1, 1>}> : (tensor<6x6xf32>) -> tensor<6x1xf32>
    %15 = "stablehlo.slice"(%13) <{limit_indices = array<i64: 6, 5>, start_indices = array<i64: 0, 4>, strides = array<i64: 1, 1>}> : (tensor<6x6xf32>) -> tensor<6x1xf32>
    %16 = "func.call"(%15) <{callee = @_flip_3}> : (tensor<6x1xf32>) -> tensor<6x1xf32>
    %17 = "stablehlo.concatenate"(%13, %16) <{dimension = 1 : i64}> : (tensor<6x6xf32>, tensor<6x1xf32>) -> tensor<6x7xf32>
    "func.return"(%17) : (tensor<6x7xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<1x5xf32>) -> tensor<1x5xf32>, res_attrs = [{}], sym_name = "_flip", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<1x5xf32>):
    %1 = "stablehlo.reverse"(%arg1) <{dimensions = array<i64: 0>}> : (tensor<1x5xf32>) -> tensor<1x5xf32>
    "func.return"(%1) : (tensor<1x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<6x1xf32>) -> tensor<6x1xf32>, res_attrs = [{}], sym_name = "_flip_3", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<6x1xf32>):
    %0 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 1>}> : (tensor<6x1xf32>) -> tensor<6x1xf32>
    "func.return"(%0) : (tensor<6x1xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
