"""Where Tendril is meant to differ from PyTorch: name, why, a program, and what Tendril does: "refuses", or its results.

generate.py --golden adds PyTorch's results and writes data/differences.txt. The test checks both: that they still differ,
and that Tendril does what is said here. The random cases leave out what is listed here.
"""

DIFFERENCES = [
    # ---- dtypes
    ("any_of_uint8", "any and all give bool for every dtype; PyTorch keeps uint8 for old programs", """
        %0 uint8 [3] = 0 7 0
        %1 = any %0
        %2 = all %0""", """
        ! %1 bool [] plain = 1
        ! %2 bool [] plain = 0"""),
    ("sign_of_bool", "arithmetic of one bool tensor is refused: cast to a number first", """
        %0 bool [2] = 0 1
        %1 = sign %0""", "refuses"),
    ("pow_of_bool", "arithmetic of one bool tensor is refused: cast to a number first", """
        %0 bool [2] = 0 1
        %1 = pow %0 false""", "refuses"),
    ("square_of_bool", "arithmetic of one bool tensor is refused: cast to a number first", """
        %0 bool [2] = 0 1
        %1 = square %0""", "refuses"),
    ("bool_in_place_with_alpha", "a bool has no multiple but itself", """
        %0 bool [2] = 0 1
        %1 bool [2] = 0 0
        %2 = add_ %0 %1 2""", "refuses"),
    ("activation_of_integers", "functions with results between integers give float32, all of them", """
        %0 int64 [2] = 0 3
        %1 = gelu %0
        %2 = elu %0""", """
        ! %1 float32 [2] plain = 0 2.9959502~3e-07
        ! %2 float32 [2] plain = 0 3"""),
    ("sums_by_index_of_bool", "sums of bool by index are refused: cast to a number first", """
        %0 bool [2] = 0 1
        %1 int64 [1] = 0
        %2 bool [1] = 1
        %3 = index_add %0 0 %1 %2""", "refuses"),
    ("scatter_of_bool", "sums of bool by index are refused: cast to a number first", """
        %0 bool [2] = 0 1
        %1 int64 [1] = 0
        %2 bool [1] = 1
        %3 = scatter_add %0 0 %1 %2""", "refuses"),
    # ---- values out of the ordinary
    ("square_where_twice_x_overflows", "g x 2 is multiplied from the left, and overflows later than g (2 x)", """
        %0 float32 [1] grad = 3e+38
        %1 = square %0
        %2 float32 [1] = 0.125
        %3 = grad (%1) (%0) (%2)""", """
        ! %1 float32 [1] grad = inf
        ! %3 float32 [1] any = 7.5e+37"""),
    ("gradient_of_elu_at_nan", "NaN gives NaN, in gradients too", """
        %0 float32 [1] grad = nan
        %1 = elu %0
        %2 float32 [1] = 0.5
        %3 = grad (%1) (%0) (%2)""", """
        ! %1 float32 [1] grad = nan
        ! %3 float32 [1] any = nan"""),
    ("sign_of_nan", "NaN gives NaN", """
        %0 float32 [1] grad = nan
        %1 = sign %0""", """
        ! %1 float32 [1] grad = nan"""),
    ("gradient_of_abs_at_nan", "NaN gives NaN, in gradients too", """
        %0 float32 [1] grad = nan
        %1 = abs %0
        %2 float32 [1] = 0.5
        %3 = grad (%1) (%0) (%2)""", """
        ! %3 float32 [1] any = nan"""),
    ("gradient_of_clamp_at_nan", "a NaN counts as within the bounds, like relu's", """
        %0 float32 [1] grad = nan
        %1 = clamp %0 -1.0 1.0
        %2 float32 [1] = 0.5
        %3 = grad (%1) (%0) (%2)""", """
        ! %3 float32 [1] any = 0.5"""),
    ("gradient_of_ignored_logits", "an ignored target has no part in the gradient; PyTorch multiplies its NaN by 0", """
        %0 float32 [2,2] grad = 1 2 nan 0
        %1 int64 [2] = 0 -100
        %2 = cross_entropy %0 %1 none mean -100 0.0
        %3 float32 [] = 1
        %4 = grad (%2) (%0) (%3)""", """
        ! %2 float32 [] grad = 1.3132617
        ! %4 float32 [2,2] any = -0.7310586 0.7310586 0 0"""),
    ("silu_at_infinity", "the limits; PyTorch multiplies infinity by 0", """
        %0 float32 [2] grad = -inf inf
        %1 = silu %0
        %2 float32 [2] = 1 1
        %3 = grad (%1) (%0) (%2)""", """
        ! %1 float32 [2] grad = 0 inf
        ! %3 float32 [2] any = 0 1"""),
    ("gradient_of_logcumsumexp_of_infinities", "as of logsumexp: the limit; PyTorch subtracts infinity from infinity", """
        %0 float32 [4] grad = -inf 0 inf inf
        %1 = logcumsumexp %0 0
        %2 float32 [4] = 1 2 3 4
        %3 = grad (%1) (%0) (%2)""", """
        ! %1 float32 [4] grad = -inf 0 inf inf
        ! %3 float32 [4] any = 0 2 5 2"""),
    ("second_derivative_of_logcumsumexp_at_gradient_0", "sums of the gradients; PyTorch takes their logarithms", """
        %0 float32 [2] grad = 0 0
        %1 = logcumsumexp %0 0
        %2 float32 [2] grad = 1 0
        %3 = grad (%1) (%0) (%2)
        %4 float32 [2] = 1 -1
        %5 = grad (%3) (%2) (%4)""", """
        ! %1 float32 [2] grad = 0 0.6931472~1e-07
        ! %3 float32 [2] any = 1 0
        ! %5 float32 [2] any = 1 0"""),
    ("gradient_of_cumprod_at_infinity", "a product of the other factors; PyTorch divides by the infinite one", """
        %0 float32 [3] grad = inf 2 3
        %1 = cumprod %0 0
        %2 float32 [3] = 1 1 1
        %3 = grad (%1) (%0) (%2)""", """
        ! %1 float32 [3] grad = inf inf inf
        ! %3 float32 [3] any = 9 inf inf"""),
    ("gradient_of_logsumexp_of_infinity", "the limit; PyTorch subtracts infinity from infinity", """
        %0 float32 [2] grad = inf 0
        %1 = logsumexp %0 0 false
        %2 float32 [] = 1
        %3 = grad (%1) (%0) (%2)""", """
        ! %3 float32 [2] any = 1 0"""),
    ("gradient_of_softplus_above_20", "the sigmoid of x for every x; PyTorch takes 1 above its threshold", """
        %0 float64 [1] grad = 21
        %1 = softplus %0
        %2 float64 [1] = 1
        %3 = grad (%1) (%0) (%2)""", """
        ! %1 float64 [1] grad = 21.000000000758256
        ! %3 float64 [1] any = 0.9999999992417439"""),
    ("second_derivative_of_elu_at_0", "where the second derivative jumps from 1 to 0 it is the mean of both", """
        %0 float32 [1] grad = 0
        %1 = elu %0
        %2 float32 [1] grad = 1
        %3 = grad (%1) (%0) (%2)
        %4 = grad (%3) (%0) (%2)""", """
        ! %3 float32 [1] any = 1
        ! %4 float32 [1] any = 0.5"""),
    ("gradient_of_atan2_by_uint8", "computed in the result's dtype; PyTorch negates and squares the uint8, which wraps", """
        %0 uint8 [1] = 4
        %1 float32 [1] grad = 2
        %2 = atan2 %0 %1
        %3 float32 [1] = 1
        %4 = grad (%2) (%1) (%3)""", """
        ! %4 float32 [1] any = -0.2"""),
    ("gradient_of_atan2_by_int32", "computed in the result's dtype; PyTorch squares the int32, which wraps", """
        %0 int32 [1] = 2147483646
        %1 float32 [1] grad = -1
        %2 = atan2 %0 %1
        %3 float32 [1] = 1
        %4 = grad (%2) (%1) (%3)""", """
        ! %4 float32 [1] any = -4.656613e-10~1e-16"""),
    ("second_derivative_of_atan2_at_0", "the gradient is 0 at (0, 0), and so is every derivative of it", """
        %0 float32 [1] grad = 0
        %1 float32 [1] grad = 0
        %2 = atan2 %0 %1
        %3 float32 [1] grad = 1
        %4,%5 = grad (%2) (%0,%1) (%3)
        %6 float32 [1] = 1
        %7,%8,%9 = grad (%4,%5) (%0,%1,%3) (%6,%6)""", """
        ! %4 float32 [1] any = 0
        ! %5 float32 [1] any = 0
        ! %7 float32 [1] any = 0
        ! %8 float32 [1] any = 0
        ! %9 float32 [1] any = 0"""),
    ("second_derivative_of_std_of_equals", "the gradient is 0 at equal elements, and so is every derivative of it", """
        %0 float64 [2] grad = 2 2
        %1 = std %0 [] true false
        %2 float64 [] grad = 1
        %3 = grad (%1) (%0) (%2)
        %4 float64 [2] = 1 0
        %5,%6 = grad (%3) (%0,%2) (%4)""", """
        ! %3 float64 [2] any = 0 0
        ! %5 float64 [2] any = 0 0
        ! %6 float64 [] any = 0"""),
    ("second_derivative_of_the_variance_of_one", "a variance that is NaN has derivatives that are NaN, in all dimensions", """
        %0 float32 [] grad = 1.5
        %1 = var %0 [] true false
        %2 float32 [] grad = 1
        %3 = grad (%1) (%0) (%2)
        %4 float32 [] = 1
        %5,%6 = grad (%3) (%0,%2) (%4)""", """
        ! %3 float32 [] any = nan
        ! %5 float32 [] any = nan
        ! %6 float32 [] any = nan"""),
    ("number_by_a_subnormal", "a quotient is divided; PyTorch multiplies by the reciprocal, which may be infinite", """
        %0 float32 [2] = 1e-40 -1e-40
        %1 = div 0 %0""", """
        ! %1 float32 [2] plain = 0 -0"""),
    ("gradient_of_addmm_at_alpha_0", "0 leaves out the product, in gradients too; PyTorch multiplies by it", """
        %0 float32 [1,1] = 1
        %1 float32 [1,1] grad = 1
        %2 float32 [1,1] = inf
        %3 = addmm %0 %1 %2 1.0 0.0
        %4 float32 [1,1] = 1
        %5 = grad (%3) (%1) (%4)""", """
        ! %3 float32 [1,1] grad = 1
        ! %5 float32 [1,1] any = 0"""),
    ("second_derivative_of_the_power_0", "0 at the power 0, whatever x; PyTorch does so where the exponent is a number", """
        %0 float32 [1] grad = 0
        %1 float32 [1] = 0
        %2 = pow %0 %1
        %3 float32 [1] grad = 1
        %4 = grad (%2) (%0) (%3)
        %5 float32 [1] = 1
        %6,%7 = grad (%4) (%0,%3) (%5)""", """
        ! %4 float32 [1] any = 0
        ! %6 float32 [1] any = 0
        ! %7 float32 [1] any = 0"""),
    ("gradient_of_div_where_a_factor_overflows", "-g x/y is divided by y, and overflows later than x/y/y", """
        %0 float32 [1] = 1.1342745e+38
        %1 float32 [1] grad = -0.5
        %2 = div %0 %1
        %3 float32 [1] = -0.05
        %4 = grad (%2) (%1) (%3)""", """
        ! %4 float32 [1] any = 2.268549e+37"""),
    ("gradient_of_pow_in_half", "computed in float32; PyTorch rounds exponents and powers to half on the way", """
        %0 float16 [1] grad = 0.17
        %1 = pow %0 -5
        %2 float16 [1] = 0.13
        %3 = grad (%1) (%0) (%2)""", """
        ! %3 float16 [1] any = -26896"""),
    ("gradient_of_atan2_of_small_halves", "computed in float32; PyTorch squares halves, which underflow", """
        %0 float16 [1] grad = 0
        %1 float16 [1] = -0.001
        %2 = atan2 %0 %1
        %3 float16 [1] = 0.04
        %4 = grad (%2) (%0) (%3)""", """
        ! %4 float16 [1] any = -40"""),
    ("mse_loss_of_large_halves", "the mean alone is rounded to half; PyTorch's squares overflow", """
        %0 float16 [2] = 0 300
        %1 float16 [2] = 0 0
        %2 = mse_loss %0 %1 mean""", """
        ! %2 float16 [] plain = 45000"""),
    ("gelu_far_below_0", "the tail keeps its digits; PyTorch subtracts it from 1", """
        %0 float32 [1] = -13
        %1 = gelu %0""", """
        ! %1 float32 [1] plain = -7.952398e-38~1e-41"""),
    ("gelu_at_infinity", "x Phi(x) at infinity is infinity; PyTorch's vector loop gives NaN", """
        %0 float32 [32] = inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf
        %1 = gelu %0""", """
        ! %1 float32 [32] plain = inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf inf"""),
    # ---- means over nothing
    ("mean_of_no_loss", "where nothing counts the gradient is 0 whatever comes in, and so is that by what comes in", """
        %0 float32 [1] grad = -1
        %1 int64 [] = -100
        %2 = nll_loss %0 %1 none mean -100
        %3 float32 [] grad = -1
        %4 = grad (%2) (%0) (%3)
        %5 float32 [1] = 1
        %6 = grad (%4) (%3) (%5)""", """
        ! %4 float32 [1] any = 0
        ! %6 float32 [] any = 0"""),
    ("mean_of_no_square", "a mean over nothing divides by 0, its second derivative by what comes in too", """
        %0 float32 [0] grad =
        %1 float32 [0] =
        %2 = mse_loss %0 %1 mean
        %3 float32 [] grad = 1
        %4 = grad (%2) (%0) (%3)
        %5 float32 [0] =
        %6 = grad (%4) (%3) (%5)""", """
        ! %2 float32 [] grad = nan
        ! %6 float32 [] any = nan"""),
    # ---- places
    ("searchsorted_beside_nan", "NaN is the largest number, as sort puts it; PyTorch goes on behind it", """
        %0 float32 [3] = 0 1 nan
        %1 float32 [2] = 2 nan
        %2 = searchsorted %0 %1 false""", """
        ! %2 int64 [2] plain = 2 2"""),
    # ---- shapes and strides
    ("results_in_row_major_order", "results are in row-major order, and images in that of the operand; PyTorch keeps any order", """
        %0 float32 [2,3] [1,2]+0 = 0 1 2 3 4 5
        %1 = neg %0
        %2 = permute %1 [1,0]
        %3 = view %2 [6]""", "refuses"),
    ("losses_do_not_broadcast", "PyTorch warns that this is likely a mistake", """
        %0 float32 [2,1] = 1 2
        %1 float32 [2] = 1 2
        %2 = mse_loss %0 %1 mean""", "refuses"),
]
