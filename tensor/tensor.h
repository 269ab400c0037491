#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tendril/tensor/accessor.h"
#include "tendril/tensor/device.h"
#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/flag.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/memory_format.h"
#include "tendril/tensor/ref.h"
#include "tendril/tensor/scalar.h"
#include "tendril/tensor/storage.h"

TENDRIL_API_BEGIN

namespace tendril {

class Index;  // of several dimensions at once: autograd/ops/indexing.h
class Indexed;
class Generator;  // of random numbers: random.h
class Tensor;
struct Unique;  // what unique() finds: autograd/ops/sort.h
struct TensorImpl;

/// What autograd attaches to a tensor that takes part in a graph. Opaque here: tensor/ only carries it along.
class History : public RefCounted {
 public:
  virtual ~History() = default;
  static void destroy(History* history) noexcept { history->dispose(); }  ///< for Ref
  /// What printing a tensor says about it.
  virtual std::string description() const { return "requires_grad=True"; }
  /// As the history of the base of `view`: gives the view its history anew.
  virtual void derive(TensorImpl& view) = 0;

 protected:
  virtual void dispose() noexcept = 0;  ///< the last reference is gone
};

/// The body of a tensor: a strided window on a storage, plus its place in the autograd graph.
struct TensorImpl : RefCounted {
  explicit TensorImpl(Ref<Storage> elements) noexcept : storage(std::move(elements)) {}
  /// From a thread-local slab.
  static Ref<TensorImpl> make(Ref<Storage> storage) {
    return Ref<TensorImpl>::first(new (memory::allocate(sizeof(TensorImpl))) TensorImpl(std::move(storage)));
  }
  static void destroy(TensorImpl* impl) noexcept;  ///< for Ref: back to the slab

  /// Of a view whose elements were changed since its history was made.
  [[gnu::always_inline]] bool is_stale() const noexcept {
    return view_base && view_version.load(std::memory_order_acquire) != storage->version() && !no_grad_view;
  }
  /// The history, brought up to date. May be asked by several threads at a time; who reads `history` or
  /// `output_number` of what may be a view asks here first.
  [[gnu::always_inline]] History* current_history() {
    if (is_stale()) [[unlikely]]
      refresh();
    return history.get();
  }

  Ref<Storage> storage;  ///< where the elements are; views share it
  int64_t offset = 0;    ///< of element 0, in elements from the storage's start
  int64_t numel = 0;     ///< the product of sizes
  Dims sizes;            ///< of each dimension, in elements
  Dims strides;          ///< in elements; 0 where a size is broadcast; never negative
  DType dtype = kFloat32;
  bool contiguous = true;  ///< row-major without gaps

  // Kept by autograd (autograd/history.h):
  bool multi_output_view = false;         ///< made by split, chunk or unbind: may not be changed in place
  bool no_grad_view = false;              ///< made under NoGrad: may not be changed in place while recording
  uint32_t output_number = 0;             ///< which output of `history` this is
  std::atomic<uint32_t> view_version{0};  ///< storage version at which a view's history was made
  std::atomic<bool> was_saved{false};     ///< a node saved this very object, not an alias, and may have it still
  Ref<History> history;                   ///< null unless the tensor requires a gradient
  Ref<History> frozen;                    ///< a leaf's history from requires_grad_(false) to requires_grad_(true)
  Ref<TensorImpl> view_base;              ///< the tensor that this one is a differentiable view of

 private:
  void refresh();
};

namespace detail {
/// Throws Error "OP: ARGUMENT is undefined".
[[noreturn]] void refuse_undefined(const char* op, const char* argument);
}  // namespace detail

/// Options of the functions that create tensors.
struct TensorOptions {
  DType dtype = kFloat32;
  Device device = default_device();
  bool requires_grad = false;  ///< whether autograd records what is made of it
};

namespace autograd {
class HookHandle;  // hooks.h
struct BackwardOptions;
}  // namespace autograd

/// An n-dimensional array, by reference: copying a Tensor copies a pointer. Elements live in a Storage that views
/// share.
///
/// Thread-safety: different threads may read one tensor, and record graphs over it, at the same time. Writing to its
/// elements or changing its graph (in-place operations, requires_grad_) needs the caller's own ordering.
class Tensor {
 public:
  /// Undefined. It may be asked whether it is defined(), is_same() and requires_grad(), and printed; all else, and all
  /// functions that are given one where they need a tensor, throw Error and name the function and the argument.
  Tensor() = default;
  /// Refers to this implementation: for the library's own use.
  explicit Tensor(Ref<TensorImpl> impl) noexcept : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;  ///< refers to the same elements
  Tensor(Tensor&&) noexcept = default;
  /// A variable is made to refer to the other tensor.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// What a function returned has no variable that could refer to something else: its elements are written, as by
  /// copy_ and fill_ (defined in autograd/). So `x[0] = y` changes x, and `Tensor row = x[0]; row = y` does not.
  Tensor operator=(const Tensor& source) &&;
  Tensor operator=(Scalar value) &&;

  // ---- what it is
  bool defined() const noexcept { return impl_ != nullptr; }       ///< whether it refers to a tensor at all
  int dim() const { return body("dim").sizes.size(); }             ///< how many dimensions
  const Dims& sizes() const { return body("sizes").sizes; }        ///< one for each dimension
  const Dims& strides() const { return body("strides").strides; }  ///< in elements, one for each dimension
  int64_t size(int64_t d) const {
    return body("size").sizes[wrap_dim(d, dim(), "size")];
  }  ///< of dimension d; negative d from the end
  int64_t stride(int64_t d) const {
    return body("stride").strides[wrap_dim(d, dim(), "stride")];
  }                                                      ///< of dimension d; negative d from the end
  int64_t numel() const { return body("numel").numel; }  ///< how many elements
  DType dtype() const { return body("dtype").dtype; }    ///< the type of the elements
  bool is_floating_point() const { return is_floating(body("is_floating_point").dtype); }  ///< a type with fractions
  int64_t element_size() const { return static_cast<int64_t>(size_of(body("element_size").dtype)); }  ///< in bytes
  int64_t nbytes() const { return numel() * element_size(); }         ///< of its elements, without gaps
  Device device() const { return body("device").storage->device(); }  ///< where the elements are
  bool is_cpu() const { return device().is_cpu(); }                   ///< whether its elements are on the CPU
  bool is_cuda() const { return !is_cpu(); }                          ///< whether they are on a CUDA device
  /// What to create one like it with: `zeros({3}, x.options())`. Without requires_grad, as in PyTorch.
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }
  bool is_contiguous() const { return body("is_contiguous").contiguous; }  ///< row-major without gaps
  /// In that order without gaps; channels_last: false of other than four dimensions. One channel, or one pixel, is
  /// both.
  bool is_contiguous(MemoryFormat format) const;
  /// What results of pointwise operations and of layers for images take over: channels_last where it is so and not
  /// row-major, too; contiguous otherwise.
  MemoryFormat suggest_memory_format() const;
  int64_t storage_offset() const { return body("storage_offset").offset; }  ///< of element 0, in elements
  const Ref<Storage>& storage() const { return body("storage").storage; }   ///< the memory, shared with views
  uint32_t version() const { return body("version").storage->version(); }   ///< how often the storage was changed
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }  ///< one tensor, not equal ones
  TensorImpl* impl() const noexcept { return impl_.get(); }                          ///< null if undefined; not owned
  const Ref<TensorImpl>& impl_ref() const& noexcept { return impl_; }                ///< null if undefined
  Ref<TensorImpl> impl_ref() && noexcept { return std::move(impl_); }                ///< null if undefined

  /// The address of element 0. Elements follow `strides()`. Who writes there says so: storage()->bump_version().
  [[gnu::always_inline]] void* raw_data() const {  // a call for each operand would be 3% of an addition of four numbers
    const TensorImpl& it = body("raw_data");
    return static_cast<char*>(it.storage->data()) + it.offset * static_cast<int64_t>(size_of(it.dtype));
  }
  /// As `raw_data`, to read. DTypeError unless T is the tensor's type, Error unless it is on the CPU.
  template <class T>
  const T* data() const {
    check_data_access(dtype_of<T>);
    return static_cast<const T*>(raw_data());
  }
  /// The same to write. From now on layers keep no prepared form of these elements (packed weights, half copies of an
  /// Autocast), because they can change without notice.
  template <class T>
  T* mutable_data() const {
    check_data_access(dtype_of<T>);
    impl_->storage->expose();
    return static_cast<T*>(raw_data());
  }
  /// PyTorch's name for `mutable_data`.
  template <class T>
  T* data_ptr() const {
    return mutable_data<T>();
  }
  /// PyTorch's name for `data`.
  template <class T>
  const T* const_data_ptr() const {
    return data<T>();
  }
  /// The value of a one-element tensor, converted; on a device it is waited for. Throws ShapeError otherwise.
  template <class T>
  T item() const {
    return item_scalar().template to<T>();
  }
  Scalar item_scalar() const;                    ///< as item, in the tensor's own kind of number
  Scalar item() const { return item_scalar(); }  ///< likewise
  /// Element by element, `x.accessor<float, 2>()[i][j]`, to read (`accessor<const float, 2>`) and to write: for loops
  /// of one's own. DTypeError, ShapeError and Error unless T, N and the CPU are the tensor's. It refers to its memory,
  /// which must live; changes are not seen by autograd.
  template <class T, int N>
  TensorAccessor<T, N> accessor() const {
    check_accessor(N);
    if constexpr (std::is_const_v<T>) {
      return {data<std::remove_const_t<T>>(), sizes().data(), strides().data()};
    } else {
      return {mutable_data<T>(), sizes().data(), strides().data()};
    }
  }
  /// All elements in row-major order, converted.
  template <class T>
  std::vector<T> to_vector() const;

  std::string to_string() const;  ///< as PyTorch prints it

  // ---- the place in the graph (defined in autograd/)
  bool requires_grad() const;  ///< whether operations on it are recorded
  /// Leaves of floating dtype only. One that requires none any more keeps grad() and hooks, as in PyTorch.
  const Tensor& requires_grad_(bool value = true) const;
  bool is_leaf() const;                  ///< made by no recorded operation
  Tensor grad() const;                   ///< of a leaf or after retain_grad(); undefined if there is none
  void set_grad(const Tensor& g) const;  ///< shape, dtype and device must equal this tensor's; undefined clears
  void zero_grad() const;                ///< drops the gradient
  Tensor detach() const;                 ///< shares elements, has no history
  const Tensor& detach_() const;         ///< drops its own history
  void retain_grad() const;              ///< keep grad() of one that is no leaf, too
  /// `hook` sees the gradient, and may return another: autograd::register_hook, with its errors.
  autograd::HookHandle register_hook(std::function<Tensor(const Tensor& gradient)> hook) const;
  /// d(this)/d(leaves), accumulated into the leaves' `.grad`. `gradient` may be undefined for one-element tensors:
  /// `loss.backward({.retain_graph = true})`, `y.backward(g, {.create_graph = true})`. Errors as autograd::backward.
  void backward(const Tensor& gradient = {}) const;
  void backward(const Tensor& gradient, autograd::BackwardOptions options) const;
  void backward(autograd::BackwardOptions options) const;

  // ---- differentiable methods (defined in autograd/ops; tensor/ must not call them, it has tensor/raw.h)
#define TENDRIL_UNARY(name, ...) Tensor name() const;
#define TENDRIL_PARAMETRIC(name, doc, dtypes, expression, saves, gradient, fused, low, high, value) \
  Tensor name(double p = value) const;
#define TENDRIL_PREDICATE(name, ...) Tensor name() const;
#define TENDRIL_BINARY(name, ...)         \
  Tensor name(const Tensor& other) const; \
  Tensor name(Scalar other) const;
#define TENDRIL_COMPARE(name, ...)        \
  Tensor name(const Tensor& other) const; \
  Tensor name(Scalar other) const;
#include "tendril/tensor/pointwise.def"
  /// Kept within [low, high], of which one may be missing: autograd/ops/pointwise.h. Promotes: integers beside a
  /// floating bound give float32.
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;  ///< `value` where mask (bool, broadcasts) is true
  Tensor bitwise_not() const;                                  ///< integers and bool
  Tensor add(const Tensor& other, Scalar alpha) const;  ///< x + alpha * y; for integers `alpha` is one too (DTypeError)
  Tensor sub(const Tensor& other, Scalar alpha) const;  ///< x - alpha * y
  Tensor clamp_min(Scalar low) const { return clamp(low, std::nullopt); }    ///< kept at `low` or above
  Tensor clamp_max(Scalar high) const { return clamp(std::nullopt, high); }  ///< kept at `high` or below
  Tensor addcmul(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, Scalar value = 1) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor where(const Tensor& mask, const Tensor& other) const;  ///< this one where `mask` is true, `other` elsewhere
  bool equal(const Tensor& other) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;

  Tensor matmul(const Tensor& other) const;  ///< of vectors, matrices and batches of them; autograd/ops/matmul.h
  Tensor mm(const Tensor& other) const;      ///< [m, k] by [k, n]
  Tensor bmm(const Tensor& other) const;     ///< [batch, m, k] by [batch, k, n]
  Tensor dot(const Tensor& other) const;     ///< [n] by [n]: one number
  Tensor mv(const Tensor& other) const;      ///< [m, k] by [k]: [m]
  Tensor outer(const Tensor& other) const;   ///< [m] by [n]: [m, n]
  Tensor addmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1) const;    ///< beta x + alpha a b
  Tensor baddbmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1) const;  ///< ... of batches
  Tensor t() const;  ///< a view, of a matrix with its dimensions swapped

  Tensor sum() const;                                         ///< of all elements; of integers and bool: int64
  Tensor sum(const Dims& dims, Flag keepdim = false) const;   ///< along `dims`, empty for all
  Tensor mean() const;                                        ///< of all elements, floating
  Tensor mean(const Dims& dims, Flag keepdim = false) const;  ///< along `dims`, empty for all
  /// Variance along `dims`, empty for all; over n - 1 if unbiased. Floating.
  Tensor var(const Dims& dims = {}, Flag unbiased = true, Flag keepdim = false) const;
  /// Standard deviation: the root of the variance.
  Tensor std(const Dims& dims = {}, Flag unbiased = true, Flag keepdim = false) const;
  /// The product of all elements, or of those along `dim`; of integers and bool: int64.
  Tensor prod() const;
  Tensor prod(int64_t dim, Flag keepdim = false) const;
  /// The p-norm, (sum of |x|^p)^(1/p), of all elements or along `dims`; p may be 0 (how many are not 0), infinity or
  /// -infinity. Floating. Its gradient where it is 0 is 0, as in PyTorch; with an infinite p elements
  /// that tie share the gradient.
  Tensor norm(double p = 2) const;
  Tensor norm(double p, const Dims& dims, Flag keepdim = false) const;
  Tensor max() const;  ///< the largest of all; NaN if there is one
  Tensor min() const;  ///< the smallest of all; NaN if there is one
  /// The largest along `dims`, empty for all. Elements that tie share the gradient, where max(dim)'s goes to one.
  Tensor amax(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor amin(const Dims& dims = {}, Flag keepdim = false) const;           ///< the smallest along `dims`
  Tensor count_nonzero(const Dims& dims = {}) const;                        ///< how many are not 0 along `dims`: int64
  Tensor nansum(const Dims& dims = {}, Flag keepdim = false) const;         ///< of elements that are not NaN
  std::tuple<Tensor, Tensor> max(int64_t dim, Flag keepdim = false) const;  ///< values, int64 indices
  std::tuple<Tensor, Tensor> min(int64_t dim, Flag keepdim = false) const;  ///< values, int64 indices
  Tensor argmax(int64_t dim, Flag keepdim = false) const;    ///< the index of the largest along `dim`: int64
  Tensor argmin(int64_t dim, Flag keepdim = false) const;    ///< the index of the smallest along `dim`: int64
  Tensor argmax() const;                                     ///< the index of the largest, in row-major order: int64
  Tensor argmin() const;                                     ///< the index of the smallest, in row-major order: int64
  Tensor all() const;                                        ///< whether all elements are non-zero: bool
  Tensor all(const Dims& dims, Flag keepdim = false) const;  ///< ... those along `dims`, empty for all
  Tensor any() const;                                        ///< whether any element is non-zero: bool
  Tensor any(const Dims& dims, Flag keepdim = false) const;  ///< ... of those along `dims`, empty for all
  /// log(sum(e^x)) along `dims`, empty for all, without overflow. Of integers and bool: float32.
  Tensor logsumexp(const Dims& dims, Flag keepdim = false) const;
  Tensor cumsum(int64_t dim) const;   ///< the sum of the elements up to each; of integers and bool: int64
  Tensor cumprod(int64_t dim) const;  ///< the product of the elements up to each; of integers and bool: int64
  /// The largest of the elements up to each, and where it is (int64): of equal elements the last, NaN once there is
  /// one.
  std::tuple<Tensor, Tensor> cummax(int64_t dim) const;
  std::tuple<Tensor, Tensor> cummin(int64_t dim) const;  ///< the smallest of them, likewise
  Tensor logcumsumexp(int64_t dim) const;                ///< log(cumsum(e^x)), without overflow; floating
  Tensor softmax(int64_t dim) const;                     ///< e^x / sum(e^x) along `dim`
  Tensor log_softmax(int64_t dim) const;                 ///< log(softmax(x)), exact where that is small

  /// out[i][j] = x[index[i][j]][j] for dim 0: of index's sizes, which are at most x's in other dimensions.
  Tensor gather(int64_t dim, const Tensor& index) const;
  /// `source` may be larger than `index`: its first elements along each dimension count.
  Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& source) const;
  /// This tensor with the source's elements written to the indices' places: out[index[i][j]][j] = source[i][j] for dim
  /// 0. Where several are written to one place, one of them is kept; all of them get its gradient, as in PyTorch.
  Tensor scatter(int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor scatter(int64_t dim, const Tensor& index, Scalar value) const;
  Tensor index_select(int64_t dim, const Tensor& index) const;  ///< index: a vector, int64 or int32
  /// This tensor with the source's slices along `dim` added to those that `index` (a vector) names.
  Tensor index_add(int64_t dim, const Tensor& index, const Tensor& source) const;
  /// This tensor with `value` in the slices along `dim` that `index` names: a vector, int64 or int32. IndexError for a
  /// place outside.
  Tensor index_fill(int64_t dim, const Tensor& index, Scalar value) const;
  /// This tensor with the source's slices along `dim` in place of those that `index` names. Where one is named twice,
  /// one of its slices is kept; all of them get its gradient.
  Tensor index_copy(int64_t dim, const Tensor& index, const Tensor& source) const;
  Tensor index(std::initializer_list<Index> indices) const;  ///< a copy or view of what `x[{...}]` reads
  Tensor take(const Tensor& index) const;                    ///< elements at these places in row-major order
  Tensor take_along_dim(const Tensor& index, int64_t dim) const;

  // ---- in another order, and chosen parts: as the functions of these names (autograd/ops/sort.h, rearrange.h,
  // indexing.h)
  std::tuple<Tensor, Tensor> sort(int64_t dim = -1, bool descending = false) const;  ///< values, int64 indices
  Tensor argsort(int64_t dim = -1, bool descending = false) const;
  std::tuple<Tensor, Tensor> topk(int64_t k, int64_t dim = -1, bool largest = true) const;  ///< values, int64 indices
  std::tuple<Tensor, Tensor> median(int64_t dim, Flag keepdim = false) const;               ///< values, int64 indices
  Tensor median() const;  ///< of all elements; of an even number the lower of the two in the middle
  std::tuple<Tensor, Tensor> kthvalue(int64_t k, int64_t dim = -1, Flag keepdim = false) const;
  Unique unique(std::optional<int64_t> dim = {}) const;
  Tensor bincount(int64_t minlength = 0) const;
  Tensor histc(int64_t bins = 100, std::optional<double> low = {}, std::optional<double> high = {}) const;
  Tensor flip(const Dims& dims) const;
  Tensor roll(int64_t shift) const;
  Tensor roll(const Dims& shifts, const Dims& dims) const;
  Tensor repeat(const Dims& times) const;
  Tensor tile(const Dims& times) const;
  Tensor repeat_interleave(int64_t times, std::optional<int64_t> dim = {}) const;
  Tensor diag(int64_t diagonal = 0) const;
  Tensor trace() const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor triu(int64_t diagonal = 0) const;
  Tensor nonzero() const;  ///< the indices of elements that are not 0, [count, dim()], int64; waits for a device
  Tensor masked_select(const Tensor& mask) const;  ///< the elements where `mask` is true, 1-d; waits for a device
  Tensor multinomial(int64_t samples, bool replacement = false) const;  ///< places drawn by these weights

  // ---- views: share elements
  Tensor view(const Dims& sizes) const;     ///< one size may be -1; throws ShapeError where strides forbid it
  Tensor reshape(const Dims& sizes) const;  ///< a view where possible, else a copy
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;  ///< dimensions start to end as one
  /// Dimension `dim` as several, of these sizes: the reverse of flatten. One may be -1.
  Tensor unflatten(int64_t dim, const Dims& sizes) const;
  Tensor expand(const Dims& sizes) const;                                  ///< -1 keeps a size
  Tensor broadcast_to(const Dims& sizes) const { return expand(sizes); }   ///< as expand
  Tensor view_as(const Tensor& x) const { return view(x.sizes()); }        ///< of x's sizes
  Tensor reshape_as(const Tensor& x) const { return reshape(x.sizes()); }  ///< of x's sizes
  Tensor expand_as(const Tensor& x) const { return expand(x.sizes()); }    ///< to x's sizes
  Tensor diagonal(int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1) const;
  Tensor movedim(int64_t from, int64_t to) const;
  Tensor permute(const Dims& dims) const;              ///< dimension d is what `dims[d]` was
  Tensor transpose(int64_t dim0, int64_t dim1) const;  ///< two dimensions swapped
  Tensor squeeze() const;                              ///< without any dimension of size 1
  Tensor squeeze(int64_t dim) const;                   ///< without `dim`, if its size is 1
  Tensor unsqueeze(int64_t dim) const;                 ///< with a new dimension of size 1
  Tensor select(int64_t dim, int64_t index) const;     ///< one place along `dim`, which goes
  /// Places start, start + step, ... below end along `dim`; negative ones from the end, and what lies outside is cut.
  Tensor slice(int64_t dim, int64_t start, int64_t end = INT64_MAX, int64_t step = 1) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;  ///< `length` places from `start`
  Tensor operator[](int64_t index) const { return select(0, index); }
  /// `x[{slice(1, 5), None, mask}]`: what the indices choose, to read or to write (autograd/ops/indexing.h).
  Indexed operator[](std::initializer_list<Index> indices) const;
  /// Pieces of `split_size` along `dim` (the last may be smaller), or of the given sizes, which must add up.
  std::vector<Tensor> split(int64_t split_size, int64_t dim = 0) const;
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int64_t dim = 0) const;
  std::vector<Tensor> chunk(int64_t chunks,
                            int64_t dim = 0) const;   ///< at most `chunks` pieces of one size; the last may be smaller
  std::vector<Tensor> unbind(int64_t dim = 0) const;  ///< one for each place along `dim`

  // ---- copies
  Tensor contiguous() const;  ///< row-major: itself, or a copy
  /// In that order without gaps: itself, or a copy. ShapeError for channels_last of other than four dimensions.
  Tensor contiguous(MemoryFormat format) const;
  Tensor clone() const;          ///< a copy in suggest_memory_format(), whose gradient goes to this one
  Tensor to(DType dtype) const;  ///< converted, in suggest_memory_format(); itself if it is of that dtype
  Tensor type_as(const Tensor& x) const { return to(x.dtype()); }  ///< converted to x's type
  Tensor to(MemoryFormat format) const;                            ///< as contiguous(format)
  /// A copy on `device`, or this tensor if it is there. `non_blocking`: copies between a device and pinned memory
  /// (cuda/runtime.h) are not waited for.
  Tensor to(Device device, bool non_blocking = false) const;
  Tensor cpu() const;   ///< on the CPU: itself, or a copy
  Tensor cuda() const;  ///< on the default CUDA device: itself, or a copy. Error where there is none

  // ---- new ones of this one's dtype and device, of these sizes
  Tensor new_empty(const Dims& sizes) const;               ///< uninitialised
  Tensor new_zeros(const Dims& sizes) const;               ///< all elements 0
  Tensor new_ones(const Dims& sizes) const;                ///< all elements 1
  Tensor new_full(const Dims& sizes, Scalar value) const;  ///< all elements `value`

  // ---- in place: change the elements, bump the version, return *this. What changes is what the tensor refers to, not
  // the variable, so these are for `const Tensor&` too. Results must not leave the tensor's category (a float does not
  // fit an int64: DTypeError) or shape (ShapeError); a comparison or a question (isnan_) writes 1 and 0.
#define TENDRIL_UNARY(name, ...) const Tensor& name##_() const;
#define TENDRIL_PARAMETRIC(name, doc, dtypes, expression, saves, gradient, fused, low, high, value) \
  const Tensor& name##_(double p = value) const;
#define TENDRIL_PREDICATE(name, ...) const Tensor& name##_() const;
#define TENDRIL_BINARY(name, ...)                   \
  const Tensor& name##_(const Tensor& other) const; \
  const Tensor& name##_(Scalar other) const;
#define TENDRIL_COMPARE(name, ...)                  \
  const Tensor& name##_(const Tensor& other) const; \
  const Tensor& name##_(Scalar other) const;
#include "tendril/tensor/pointwise.def"
  /// Adds `alpha` * other. For integers `alpha` must be one too (DTypeError).
  const Tensor& add_(const Tensor& other, Scalar alpha) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha) const;  ///< subtracts it
  const Tensor& operator+=(const Tensor& other) const { return add_(other); }
  const Tensor& operator-=(const Tensor& other) const { return sub_(other); }
  const Tensor& operator*=(const Tensor& other) const { return mul_(other); }
  const Tensor& operator/=(const Tensor& other) const { return div_(other); }
  const Tensor& operator%=(const Tensor& other) const { return remainder_(other); }
  const Tensor& operator&=(const Tensor& other) const { return bitwise_and_(other); }
  const Tensor& operator|=(const Tensor& other) const { return bitwise_or_(other); }
  const Tensor& operator^=(const Tensor& other) const { return bitwise_xor_(other); }
  const Tensor& operator<<=(const Tensor& other) const { return bitwise_left_shift_(other); }
  const Tensor& operator>>=(const Tensor& other) const { return bitwise_right_shift_(other); }
  const Tensor& operator+=(Scalar other) const { return add_(other); }
  const Tensor& operator-=(Scalar other) const { return sub_(other); }
  const Tensor& operator*=(Scalar other) const { return mul_(other); }
  const Tensor& operator/=(Scalar other) const { return div_(other); }
  const Tensor& operator%=(Scalar other) const { return remainder_(other); }
  const Tensor& operator&=(Scalar other) const { return bitwise_and_(other); }
  const Tensor& operator|=(Scalar other) const { return bitwise_or_(other); }
  const Tensor& operator^=(Scalar other) const { return bitwise_xor_(other); }
  const Tensor& operator<<=(Scalar other) const { return bitwise_left_shift_(other); }
  const Tensor& operator>>=(Scalar other) const { return bitwise_right_shift_(other); }
  const Tensor& copy_(const Tensor& source) const;  ///< its elements, converted; sizes broadcast
  const Tensor& fill_(Scalar value) const;          ///< every element
  const Tensor& zero_() const { return fill_(0); }  ///< every element 0
  const Tensor& clamp_(std::optional<Scalar> low, std::optional<Scalar> high) const;  ///< within [low, high]
  const Tensor& clamp_min_(Scalar low) const { return clamp_(low, std::nullopt); }    ///< at `low` or above
  const Tensor& clamp_max_(Scalar high) const { return clamp_(std::nullopt, high); }  ///< at `high` or below
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;                 ///< where mask is true
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, Scalar value = 1) const;   ///< adds value * a * b
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, Scalar value = 1) const;   ///< adds value * a / b
  const Tensor& lerp_(const Tensor& end, const Tensor& weight) const;                 ///< moves towards `end`
  const Tensor& lerp_(const Tensor& end, double weight) const;                        ///< moves towards `end`
  const Tensor& bitwise_not_() const;                                                 ///< integers and bool
  const Tensor& tril_(int64_t diagonal = 0) const;  ///< zeros above the diagonal of the last two dimensions
  const Tensor& triu_(int64_t diagonal = 0) const;  ///< zeros below it
  const Tensor& cumsum_(
      int64_t dim) const;  ///< running sums along `dim`, in place; not of bool, whose sums are int64 (DTypeError)
  const Tensor& cumprod_(int64_t dim) const;  ///< likewise
  // As the operations without `_`, with the same errors, before anything is changed.
  const Tensor& scatter_(int64_t dim, const Tensor& index, const Tensor& source) const;      ///< see scatter
  const Tensor& scatter_(int64_t dim, const Tensor& index, Scalar value) const;              ///< see scatter
  const Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& source) const;  ///< see scatter_add
  const Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& source) const;    ///< see index_add
  const Tensor& index_fill_(int64_t dim, const Tensor& index, Scalar value) const;           ///< see index_fill
  const Tensor& index_copy_(int64_t dim, const Tensor& index, const Tensor& source) const;   ///< see index_copy
  /// What `x[{...}] = values` writes.
  const Tensor& index_put_(std::initializer_list<Index> indices, const Tensor& values, bool accumulate = false) const;
  const Tensor& index_put_(std::initializer_list<Index> indices, Scalar value) const;  ///< likewise

  // ---- in place: random numbers, from `generator`'s stream. What was there has gradient 0. Floating dtypes, but for
  // bernoulli_ (DTypeError).
  const Tensor& uniform_(double low = 0, double high = 1) const;  ///< in [low, high)
  const Tensor& uniform_(double low, double high, Generator& generator) const;
  const Tensor& normal_(double mean = 0, double stddev = 1) const;  ///< of mean and standard deviation
  const Tensor& normal_(double mean, double stddev, Generator& generator) const;
  /// As normal_, but only numbers in [low, high], by the inverse of the distribution function, on the host. Error
  /// unless low < high, stddev > 0, and that interval has a probability that a double can hold.
  const Tensor& trunc_normal_(double mean = 0, double stddev = 1, double low = -2, double high = 2) const;
  const Tensor& trunc_normal_(double mean, double stddev, double low, double high, Generator& generator) const;
  const Tensor& exponential_(double rate = 1) const;  ///< of density rate e^(-rate x), rate > 0
  const Tensor& exponential_(double rate, Generator& generator) const;
  const Tensor& bernoulli_(double p = 0.5) const;  ///< 1 with probability p, else 0
  const Tensor& bernoulli_(double p, Generator& generator) const;

 private:
  TensorImpl& body(const char* asked) const {
    if (!impl_) [[unlikely]]
      detail::refuse_undefined(asked, "the tensor");
    return *impl_;
  }
  void check_data_access(DType wanted) const;
  void check_accessor(int dims) const;

  Ref<TensorImpl> impl_;
};

namespace autograd {
/// Of a backward run (here because Tensor::backward takes them).
struct BackwardOptions {
  bool retain_graph = false;  ///< keep what a second backward over the same graph needs; create_graph implies it
  /// Record the formulas, so that the gradients can be differentiated. `.grad` then holds the graph that holds the
  /// leaf, which keeps both alive until it is cleared (zero_grad): prefer autograd::grad.
  bool create_graph = false;
  /// Only these leaves get gradients, and only the part of the graph between them and the roots runs; empty: all
  /// leaves. AutogradError for one that is no leaf or requires no gradient.
  std::vector<Tensor> inputs = {};
};
}  // namespace autograd

namespace detail {
/// For the first lines of every function that takes tensors.
inline void check_defined(const Tensor& x, const char* op, const char* argument = "the tensor") {
  if (!x.defined()) [[unlikely]]
    refuse_undefined(op, argument);
}
/// ... and for those that are of floating dtypes only.
void check_floating(const Tensor& x, const char* op);
/// For what is written in place: throws DTypeError where `result` does not fit target's category, as a float does not
/// fit an int64 (defined in autograd/).
void check_category(const Tensor& target, DType result, const char* op);
}  // namespace detail

/// As to_string.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace tendril

TENDRIL_API_END
