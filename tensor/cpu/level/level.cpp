#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {

extern const ByOp<Unary, Loop> unary_loops;
extern const ByOp<Predicate, Loop> predicate_loops;
extern const ByOp<Binary, Loop> binary_loops;
extern const ByOp<Compare, Loop> compare_loops;
extern const ByOp<Unary, Loop> unary_gradient_loops;
extern const std::array<ByOp<Binary, Loop>, 2> binary_gradient_loops;
extern const HalfCasts half_casts;
extern const TransposeLoops transpose_loops;
extern const ByOp<Reduction, FoldRows> fold_rows_loops;
extern const ByOp<Reduction, FoldColumns> fold_columns_loops;
extern const ByDType<SoftmaxLoops> softmax_loops;
extern const ByDType<SoftmaxLoops> log_softmax_loops;
extern const ByDType<void (*)(const Gemm&)> gemms;
extern const ByDType<PackedProduct> packed_products;
extern const ByDType<CrossEntropyLoops> cross_entropy_loops;
extern const ByDType<ChannelLoops> channel_loops;
extern const ByDType<PixelLoops> pixel_loops;
extern const ByDType<LineLoops> line_loops;
extern const std::array<StepLoops, std::variant_size_v<StepRule>> step_loops;
extern const ByDType<LstmLoops> lstm_loops;
extern const ByDType<void (*)(const WindowRow&)> max_pool_rows;
extern const ByDType<AttentionLoops> attention_loops;
extern const WinogradLoops winograd_loops;
extern const RandomWords random_word_loop;

#define TENDRIL_TEXT_OF(name) #name
#define TENDRIL_TEXT(name) TENDRIL_TEXT_OF(name)

extern const Loops all;
constinit const Loops all = {.name = TENDRIL_TEXT(TENDRIL_CPU_LEVEL),
                             .unary = unary_loops,
                             .predicate = predicate_loops,
                             .binary = binary_loops,
                             .compare = compare_loops,
                             .unary_gradient = unary_gradient_loops,
                             .binary_gradient = binary_gradient_loops,
                             .half_casts = half_casts,
                             .transpose = transpose_loops,
                             .fold_rows = fold_rows_loops,
                             .fold_columns = fold_columns_loops,
                             .softmax = softmax_loops,
                             .log_softmax = log_softmax_loops,
                             .gemm = gemms,
                             .packed_product = packed_products,
                             .cross_entropy = cross_entropy_loops,
                             .channel = channel_loops,
                             .pixel = pixel_loops,
                             .line = line_loops,
                             .step = step_loops,
                             .lstm = lstm_loops,
                             .max_pool = max_pool_rows,
                             .attention = attention_loops,
                             .winograd = winograd_loops,
                             .random_words = random_word_loop};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
