#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Examples by number, for a DataLoader (loader.h) or a loop of one's own.
namespace tendril::data {

namespace detail {
template <class D>
concept GetsByIndex = requires(const D& dataset, int64_t index) {
  dataset.get(index);
};
template <class D>
concept GetsAtRandom = requires(const D& dataset, int64_t index, Generator& random) {
  dataset.get(index, random);
};

template <class D>
decltype(auto) get(const D& dataset, int64_t index, Generator& random) {
  if constexpr (GetsAtRandom<D>) {
    return dataset.get(index, random);
  } else {
    return dataset.get(index);
  }
}
}  // namespace detail

/// What can be a dataset: `size()` says how many examples it has, `get(index)` makes one. Where examples are random
/// (augmented images) it is `get(index, random)`, and all their random numbers come from that Generator: then an
/// example is the same whichever thread makes it.
///
/// Both are const, and a DataLoader with workers calls `get` on several threads at a time.
template <class D>
concept RandomAccess = requires(const D& dataset) {
  { dataset.size() } -> std::convertible_to<int64_t>;
}
&&(detail::GetsByIndex<D> || detail::GetsAtRandom<D>);

/// What `get` returns.
template <RandomAccess D>
using ExampleOf =
    std::remove_cvref_t<decltype(detail::get(std::declval<const D&>(), int64_t{}, std::declval<Generator&>()))>;

/// Any dataset of these examples, by reference: a copy refers to the same one, and keeps it.
///
///     data::Dataset images = data::load_mnist("folder", data::Split::train);
///     auto augmented = images.map([](auto example, Generator& random) { ... });
///
/// Thread-safety: that of the dataset within.
template <class Example>
class Dataset {
 public:
  template <RandomAccess D>
  requires(!std::same_as<D, Dataset> && std::convertible_to<ExampleOf<D>, Example>)  //
      Dataset(D dataset)                                                             // NOLINT: any dataset is one
      : body_(std::make_shared<Holder<D>>(std::move(dataset))) {}

  /// How many examples.
  int64_t size() const { return body_->size(); }
  /// Throws IndexError unless 0 <= index < size(), and what the dataset throws.
  Example get(int64_t index, Generator& random) const {
    TENDRIL_CHECK_AS(IndexError, index >= 0 && index < size(), "Dataset::get: index: got ", index,
                     ", expected one from 0 to below ", size());
    return body_->get(index, random);
  }
  /// What is random draws from the default generator.
  Example get(int64_t index) const { return get(index, default_generator()); }

  /// f(example), or f(example, random), of each example, when it is asked for.
  template <class F>
  auto map(F f) const {
    constexpr bool is_random = std::is_invocable_v<const F&, Example, Generator&>;
    static_assert(is_random || std::is_invocable_v<const F&, Example>,
                  "Dataset::map: the function takes an example, or an example and a Generator&, and is const");
    struct Mapped {
      Dataset from;
      F f;
      int64_t size() const { return from.size(); }
      auto get(int64_t index, Generator& random) const {
        if constexpr (is_random) {
          return f(from.get(index, random), random);
        } else {
          return f(from.get(index, random));
        }
      }
    };
    return Dataset<ExampleOf<Mapped>>(Mapped{*this, std::move(f)});
  }

  /// The examples of these numbers, in this order; a number may be there several times. Throws IndexError for one that
  /// is out of range.
  Dataset subset(std::vector<int64_t> indices) const {
    for (const int64_t index : indices) {
      TENDRIL_CHECK_AS(IndexError, index >= 0 && index < size(), "Dataset::subset: indices: got ", index,
                       ", expected ones from 0 to below ", size());
    }
    struct Subset {
      Dataset from;
      std::vector<int64_t> indices;
      int64_t size() const { return static_cast<int64_t>(indices.size()); }
      Example get(int64_t index, Generator& random) const {
        return from.get(indices[static_cast<std::size_t>(index)], random);
      }
    };
    return Subset{*this, std::move(indices)};
  }

 private:
  struct Body {
    virtual ~Body() = default;
    virtual int64_t size() const = 0;
    virtual Example get(int64_t index, Generator& random) const = 0;
  };
  template <class D>
  struct Holder final : Body {
    explicit Holder(D given) : dataset(std::move(given)) {}
    int64_t size() const override { return static_cast<int64_t>(dataset.size()); }
    Example get(int64_t index, Generator& random) const override { return detail::get(dataset, index, random); }
    D dataset;
  };

  std::shared_ptr<const Body> body_;
};
template <RandomAccess D>
Dataset(D) -> Dataset<ExampleOf<D>>;

namespace detail {
/// Without history.
Tensor row_of(const Tensor& x, int64_t index);
}  // namespace detail

/// Example i is row i of each tensor: `TensorDataset(images, labels)`, `auto [image, label] = dataset.get(i)`. The rows
/// are views, without history.
template <std::size_t N>
class TensorDataset {
 public:
  /// Throws Error for an undefined tensor, ShapeError for a 0-d one and for ones of different first sizes.
  template <std::same_as<Tensor>... T>
  requires(sizeof...(T) == N && N > 0) explicit TensorDataset(const T&... tensors) : tensors_{tensors...} {
    for (std::size_t i = 0; i < N; ++i) {
      tendril::detail::check_defined(tensors_[i], "TensorDataset", "a tensor");
      TENDRIL_CHECK_AS(ShapeError, tensors_[i].dim() > 0 && tensors_[i].size(0) == tensors_[0].size(0),
                       "TensorDataset: tensor ", i, " has shape ", tensors_[i].sizes(),
                       ", expected a first size that is tensor 0's, whose shape is ", tensors_[0].sizes());
    }
  }
  /// How many examples.
  int64_t size() const { return tensors_[0].size(0); }
  /// Row `index` of each tensor.
  std::array<Tensor, N> get(int64_t index) const {
    std::array<Tensor, N> rows;
    for (std::size_t i = 0; i < N; ++i) rows[i] = detail::row_of(tensors_[i], index);
    return rows;
  }

 private:
  std::array<Tensor, N> tensors_;
};
template <std::same_as<Tensor>... T>
TensorDataset(const T&...) -> TensorDataset<sizeof...(T)>;

/// Dataset::map of any dataset: `data::map(images, data::on_image(augment))`.
template <RandomAccess D, class F>
auto map(D dataset, F f) {
  return Dataset<ExampleOf<D>>(std::move(dataset)).map(std::move(f));
}

namespace detail {
/// Which examples of `size` each part gets, drawn by `seed`. random_split has the contract.
std::vector<std::vector<int64_t>> split_indices(int64_t size, const std::vector<double>& parts, uint64_t seed);
}  // namespace detail

/// Parts of a dataset that have no example in common, drawn by `seed`. `parts` are either sizes, which add up to the
/// dataset's, or shares, which add up to 1; what shares leave over goes to the first parts, one each, as in PyTorch.
/// Throws Error for others.
template <RandomAccess D>
std::vector<Dataset<ExampleOf<D>>> random_split(D dataset, const std::vector<double>& parts, uint64_t seed) {
  const Dataset<ExampleOf<D>> all(std::move(dataset));
  std::vector<Dataset<ExampleOf<D>>> split;
  for (auto& indices : detail::split_indices(all.size(), parts, seed)) split.push_back(all.subset(std::move(indices)));
  return split;
}

/// The examples of one after those of the other.
template <class Example>
Dataset<Example> concat(std::vector<Dataset<Example>> datasets) {
  struct Concat {
    std::vector<Dataset<Example>> datasets;
    int64_t size() const {
      int64_t sum = 0;
      for (const auto& dataset : datasets) sum += dataset.size();
      return sum;
    }
    Example get(int64_t index, Generator& random) const {
      std::size_t which = 0;
      while (index >= datasets[which].size()) index -= datasets[which++].size();
      return datasets[which].get(index, random);
    }
  };
  return Concat{std::move(datasets)};
}
/// As above.
template <class Example, class... More>
requires(std::same_as<More, Dataset<Example>>&&...) Dataset<Example> concat(const Dataset<Example>& first,
                                                                            const More&... more) {
  return concat(std::vector<Dataset<Example>>{first, more...});
}

}  // namespace tendril::data

TENDRIL_API_END
