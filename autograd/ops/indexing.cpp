#include "tendril/autograd/ops/indexing.h"

#include <algorithm>
#include <numeric>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/detail/named_error.h"
#include "tendril/tensor/detail/overloaded.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// How many of x's dimensions an index takes.
int taken_by(const Index& index) {
  if (std::holds_alternative<NewDimension>(index.value()) || std::holds_alternative<AllDimensions>(index.value()))
    return 0;
  const Tensor* tensor = std::get_if<Tensor>(&index.value());
  if (!tensor) return 1;
  detail::check_defined(*tensor, "index", "an index");
  return tensor->dtype() == kBool ? tensor->dim() : 1;
}

Tensor sliced(const Tensor& x, int dim, const Slice& s) {
  TENDRIL_CHECK(s.step >= 1, "index: got a slice of step ", s.step, ", expected 1 or more (flip turns around)");
  const int64_t size = x.sizes()[dim];
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  const int64_t start = place(s.start.value_or(0)), stop = place(s.stop.value_or(size));
  return x.slice(dim, start, std::max(start, stop), s.step);
}

/// What is left of the brackets once everything but tensors has been applied as a view.
struct Plan {
  Tensor view;
  std::vector<int> dims;          ///< of the view that tensors choose from, ascending
  std::vector<Tensor> positions;  ///< int64, for each of them; one shape
  bool together = true;           ///< the dims follow one another, and nothing stood between
};

/// The dimensions a mask takes, each by the positions of what is true. Returns how many there are then. A 0-d one takes
/// none: it puts one in, of the one element that it chooses or not.
int add_mask(Plan& plan, const Tensor& mask, int dim) {
  if (mask.dim() == 0) {
    plan.view = plan.view.unsqueeze(dim);
    plan.dims.push_back(dim);
    plan.positions.push_back(raw::zeros({mask.item<bool>() ? 1 : 0}, kInt64, plan.view.device()));
    return 1;
  }
  for (int d = 0; d < mask.dim(); ++d) {
    TENDRIL_CHECK_AS(ShapeError, mask.sizes()[d] == plan.view.sizes()[dim + d], "index: a mask of shape ", mask.sizes(),
                     " for dimensions ", dim, " to ", dim + mask.dim() - 1, " of shape ", plan.view.sizes());
  }
  const Tensor places = nonzero(raw::to(mask, plan.view.device()));
  for (int d = 0; d < mask.dim(); ++d) {
    plan.dims.push_back(dim + d);
    plan.positions.push_back(raw::contiguous(raw::select(places, 1, d)));
  }
  return mask.dim();
}

void add_positions(Plan& plan, const Tensor& given, int dim) {
  TENDRIL_CHECK_AS(DTypeError, given.dtype() == kInt64 || given.dtype() == kInt32, "index: got an index tensor of ",
                   given.dtype(), ", expected int64, int32 or bool");
  const int64_t size = plan.view.sizes()[dim];
  const Tensor index = raw::cast(given, kInt64);
  if (index.numel() > 0) {
    const auto smallest = drivers::reduce(Reduction::min, index).item<int64_t>();
    const auto largest = drivers::reduce(Reduction::max, index).item<int64_t>();
    TENDRIL_CHECK_AS(IndexError, smallest >= -size && largest < size, "index: position ",
                     largest < size ? smallest : largest, " is out of range for dimension ", dim, " of shape ",
                     plan.view.sizes());
  }
  const Tensor from_start =
      raw::where(raw::compare(Compare::lt, index, 0), raw::binary(Binary::add, index, size), index);
  plan.dims.push_back(dim);
  plan.positions.push_back(raw::to(from_start, plan.view.device()));
}

Plan plan_of(const Tensor& x, const std::vector<Index>& indices) {
  detail::check_defined(x, "index", "x");
  int taken = 0, ellipses = 0;
  for (const Index& each : indices) {
    taken += taken_by(each);
    ellipses += std::holds_alternative<AllDimensions>(each.value()) ? 1 : 0;
  }
  TENDRIL_CHECK_AS(IndexError, taken <= x.dim(), "index: got indices for ", taken, " dimensions of a tensor of shape ",
                   x.sizes());
  TENDRIL_CHECK_AS(IndexError, ellipses <= 1, "index: got ", ellipses, " ellipses, expected one at most");
  Plan plan{.view = x};
  int dim = 0;
  for (const Index& each : indices) {
    std::visit(detail::Overloaded{[&](int64_t number) { plan.view = plan.view.select(dim, number); },
                                  [&](const Slice& slice) { plan.view = sliced(plan.view, dim++, slice); },
                                  [&](NewDimension) { plan.view = plan.view.unsqueeze(dim++); },
                                  [&](AllDimensions) { dim += x.dim() - taken; },
                                  [&](const Tensor& tensor) {
                                    if (tensor.dim() == 0 && (tensor.dtype() == kInt64 || tensor.dtype() == kInt32)) {
                                      plan.view = plan.view.select(dim, tensor.item<int64_t>());
                                    } else if (tensor.dtype() == kBool) {
                                      dim += add_mask(plan, tensor, dim);
                                    } else {
                                      add_positions(plan, tensor, dim++);
                                    }
                                  }},
               each.value());
  }
  // A number in between is a position too for NumPy; here it has become a view before, which moves nothing.
  for (std::size_t i = 1; i < plan.dims.size(); ++i) plan.together &= plan.dims[i] == plan.dims[i - 1] + 1;
  Dims shape;
  for (const Tensor& each : plan.positions) shape = broadcast_shapes(shape, each.sizes(), "index");
  for (Tensor& each : plan.positions) each = raw::expand(each, shape);
  return plan;
}

/// The view with the chosen dimensions in front and flattened to one, and in it the row of each position.
struct Rows {
  Tensor table;    ///< [rows, the other dimensions...]
  Tensor numbers;  ///< int64, a vector
  Dims order;      ///< of the view's dimensions in the table
  Dims chosen;     ///< sizes of the result before it is put in order: those of the positions, then the others
  Dims placing;    ///< its dimensions as they come in the result
};

Rows rows_of(const Plan& plan) {
  Rows rows;
  const Dims& sizes = plan.view.sizes();
  const int count = static_cast<int>(plan.dims.size());
  for (int d : plan.dims) rows.order.push_back(d);
  for (int d = 0; d < plan.view.dim(); ++d) {
    if (std::find(plan.dims.begin(), plan.dims.end(), d) == plan.dims.end()) rows.order.push_back(d);
  }
  rows.chosen = plan.positions[0].sizes();
  const int leading = rows.chosen.size();
  Dims flat{1};
  for (int d = 0; d < rows.order.size(); ++d) {
    const int64_t size = sizes[static_cast<int>(rows.order[d])];
    if (d < count) {
      flat[0] *= size;
    } else {
      flat.push_back(size);
      rows.chosen.push_back(size);
    }
  }
  Tensor numbers = plan.positions[0];
  for (std::size_t i = 1; i < plan.dims.size(); ++i) {
    numbers = raw::binary(Binary::add, raw::binary(Binary::mul, numbers, sizes[plan.dims[i]]), plan.positions[i]);
  }
  rows.numbers = raw::reshape(numbers, {-1});
  rows.table = plan.view.permute(rows.order).reshape(flat);
  const int before = plan.together ? plan.dims[0] : 0;  // of the other dimensions
  for (int d = 0; d < before; ++d) rows.placing.push_back(leading + d);
  for (int d = 0; d < leading; ++d) rows.placing.push_back(d);
  for (int d = leading + before; d < rows.chosen.size(); ++d) rows.placing.push_back(d);
  return rows;
}

Dims inverse(const Dims& order) {
  Dims result = Dims::filled(order.size(), 0);
  for (int d = 0; d < order.size(); ++d) result[static_cast<int>(order[d])] = d;
  return result;
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Index>& indices) {
  const Plan plan = plan_of(x, indices);
  if (plan.dims.empty()) return plan.view;
  const Rows rows = rows_of(plan);
  return rows.table.index_select(0, rows.numbers).reshape(rows.chosen).permute(rows.placing);
}

const Tensor& index_put_(const Tensor& x, const std::vector<Index>& indices, const Tensor& values, bool accumulate) {
  detail::check_defined(x, "index_put_", "x");
  detail::check_defined(values, "index_put_", "values");
  const Plan plan = plan_of(x, indices);
  Tensor view = plan.view;
  if (plan.dims.empty()) {
    if (accumulate) {
      view.add_(values);
    } else {
      view.copy_(values);
    }
    return x;
  }
  const Rows rows = rows_of(plan);
  Dims sizes;
  for (int d = 0; d < rows.placing.size(); ++d) sizes.push_back(rows.chosen[static_cast<int>(rows.placing[d])]);
  TENDRIL_CHECK_AS(ShapeError, broadcast_shapes(values.sizes(), sizes, "index_put_") == sizes,
                   "index_put_: values of shape ", values.sizes(), " do not broadcast to what is chosen, ", sizes);
  Dims flat = rows.table.sizes();
  flat[0] = rows.numbers.numel();
  const Tensor written = values.to(x.device()).to(x.dtype()).expand(sizes).permute(inverse(rows.placing)).reshape(flat);
  Tensor table;
  if (accumulate) {
    table = rows.table.index_add(0, rows.numbers, written);
  } else {
    Dims line = Dims::filled(flat.size(), 1);
    line[0] = flat[0];
    table = rows.table.scatter(0, raw::expand(raw::reshape(rows.numbers, line), flat), written);
  }
  view.copy_(table.reshape(view.permute(rows.order).sizes()).permute(inverse(rows.order)));
  return x;
}

const Tensor& Indexed::put(const Tensor& values, const char* op) const {
  detail::check_category(base_, values.dtype(), op);
  return tendril::index_put_(base_, indices_, values);
}

const Tensor& Indexed::operator=(Scalar value) && {
  detail::check_fits(value, base_.dtype(), "x[...] = value");
  return tendril::index_put_(base_, indices_, raw::scalar(value, base_.dtype(), base_.device()));
}

Indexed Tensor::operator[](std::initializer_list<Index> indices) const { return {*this, indices}; }

Tensor nonzero(const Tensor& x) {
  detail::check_defined(x, "nonzero", "x");
  const Tensor flags = raw::to(raw::contiguous(raw::compare(Compare::ne, x, 0)), kCPU);
  const auto* const set = flags.data<bool>();
  // Counted first, piece by piece: then each piece knows where its places go.
  constexpr int64_t kPiece = 16 * 1024;
  const int64_t numel = x.numel(), pieces = (numel + kPiece - 1) / kPiece;
  std::vector<int64_t> before(static_cast<std::size_t>(pieces) + 1);
  cpu::parallel_for(pieces, 2, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const bool* const from = set + piece * kPiece;
      before[static_cast<std::size_t>(piece) + 1] =
          std::count(from, from + std::min(kPiece, numel - piece * kPiece), true);
    }
  });
  std::partial_sum(before.begin(), before.end(), before.begin());
  const Dims& sizes = x.sizes();
  const Tensor found = raw::empty({before.back(), sizes.size()}, kInt64);
  auto* const rows = found.mutable_data<int64_t>();
  cpu::parallel_for(pieces, 2, [&](int64_t begin, int64_t end) {
    int64_t* row = rows + before[static_cast<std::size_t>(begin)] * sizes.size();
    for (int64_t i = begin * kPiece; i < std::min(end * kPiece, numel); ++i) {
      if (!set[i]) continue;
      int64_t rest = i;
      for (int d = sizes.size() - 1; d > 0; --d) {
        row[d] = rest % sizes[d];
        rest /= sizes[d];
      }
      if (!sizes.empty()) row[0] = rest;
      row += sizes.size();
    }
  });
  return raw::to(found, x.device());
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  detail::check_defined(x, "masked_select", "x");
  detail::check_defined(mask, "masked_select", "the mask");
  TENDRIL_CHECK_AS(DTypeError, mask.dtype() == kBool, "masked_select: the mask is ", mask.dtype(), ", expected bool");
  const Dims sizes = broadcast_shapes(x.sizes(), mask.sizes(), "masked_select");
  const Tensor places = nonzero(raw::reshape(raw::expand(mask, sizes), {-1}));
  return x.expand(sizes).reshape({-1}).index_select(0, raw::to(raw::select(places, 1, 0), x.device()));
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t given_dim) {
  detail::check_defined(x, "take_along_dim", "x");
  detail::check_defined(index, "take_along_dim", "the index");
  const int dim = wrap_dim(given_dim, x.dim(), "take_along_dim");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == index.dim(), "take_along_dim: the index has shape ", index.sizes(),
                   ", expected as many dimensions as the tensor of shape ", x.sizes());
  TENDRIL_CHECK_AS(DTypeError, index.dtype() == kInt64, "take_along_dim: the index is ", index.dtype(),
                   ", expected int64");
  const int64_t size = x.dim() == 0 ? 1 : x.size(dim);
  const Tensor from_end =
      raw::compare(Compare::logical_and, raw::compare(Compare::lt, index, 0), raw::compare(Compare::ge, index, -size));
  const Tensor places = raw::where(from_end, raw::binary(Binary::add, index, size), index);
  if (x.dim() == 0) return detail::named_errors("take_along_dim", {"gather"}, [&] { return x.gather(0, places); });
  Dims of_x = x.sizes(), of_index = index.sizes();
  of_x[dim] = of_index[dim] = 1;
  of_x = of_index = broadcast_shapes(of_x, of_index, "take_along_dim");
  of_x[dim] = x.sizes()[dim];
  of_index[dim] = index.sizes()[dim];
  return detail::named_errors("take_along_dim", {"expand", "gather"},
                              [&] { return x.expand(of_x).gather(dim, raw::expand(places, of_index)); });
}

Tensor one_hot(const Tensor& classes, int64_t num_classes) {
  detail::check_defined(classes, "one_hot", "classes");
  TENDRIL_CHECK_AS(DTypeError, classes.dtype() == kInt64, "one_hot: classes are ", classes.dtype(), ", expected int64");
  TENDRIL_CHECK(num_classes > 0, "one_hot: num_classes: got ", num_classes, ", expected a positive number");
  if (classes.device().is_cpu() && classes.numel() > 0) {  // on a device the kernel checks, and nobody waits
    const auto smallest = drivers::reduce(Reduction::min, classes).item<int64_t>();
    const auto largest = drivers::reduce(Reduction::max, classes).item<int64_t>();
    TENDRIL_CHECK_AS(IndexError, smallest >= 0 && largest < num_classes, "one_hot: class ",
                     smallest < 0 ? smallest : largest, " is out of range, expected 0 to ", num_classes - 1);
  }
  Dims sizes = classes.sizes();
  sizes.push_back(num_classes);
  return raw::zeros(sizes, kInt64, classes.device()).scatter(-1, raw::unsqueeze(classes, -1), 1);
}

Tensor Tensor::nonzero() const { return tendril::nonzero(*this); }
Tensor Tensor::masked_select(const Tensor& mask) const { return tendril::masked_select(*this, mask); }

}  // namespace tendril
