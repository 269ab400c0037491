#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// How examples become a batch:
///
///     Tensor                          their stack, [batch, ...]: shapes, dtypes and devices must be equal
///     bool, integers, float, double   a vector, [batch], of bool, int64, float32, float64
///     std::string                     std::vector<std::string>
///     std::tuple, pair, array         the same of the batches of their elements
///
/// A class of your own has a specialisation of Collate, or the DataLoader a function of its own.
namespace tendril::data {

namespace detail {
/// Throws Error for none, ShapeError or DTypeError for examples that differ.
Tensor stack(const std::vector<Tensor>& examples);
Tensor vector_of(const std::vector<int64_t>& values);
Tensor vector_of(const std::vector<double>& values);
Tensor vector_of(const std::vector<float>& values);
Tensor vector_of(const std::vector<bool>& values);
template <class T>
inline constexpr bool always_false = false;
}  // namespace detail

/// How examples of one type become a batch, as default_collate of PyTorch does it; specialise it for a type of your
/// own: a static function `of`, from a std::vector of them to what the loop over a DataLoader gets.
template <class T>
struct Collate {
  static_assert(detail::always_false<T>,
                "DataLoader: give it a function that makes a batch of a std::vector of these examples, or specialise "
                "tendril::data::Collate for them");
};

template <>
struct Collate<Tensor> {
  /// Tensors, stacked.
  static Tensor of(std::vector<Tensor> examples) { return detail::stack(examples); }
};

template <class T>
requires std::integral<T> || std::floating_point<T>
struct Collate<T> {
  using Wide = std::conditional_t<std::floating_point<T> || std::same_as<T, bool>, T,
                                  int64_t>;  ///< integers become int64, as in PyTorch
  /// Numbers, as a vector.
  static Tensor of(std::vector<T> examples) {
    return detail::vector_of(std::vector<Wide>(examples.begin(), examples.end()));
  }
};

template <>
struct Collate<std::string> {
  /// Strings, as they are.
  static std::vector<std::string> of(std::vector<std::string> examples) { return examples; }
};

namespace detail {
template <class T>
using BatchOf = decltype(Collate<T>::of(std::declval<std::vector<T>>()));

/// Element I of each of them.
template <std::size_t I, class T>
auto column(std::vector<T>& examples) {
  std::vector<std::tuple_element_t<I, T>> values;
  values.reserve(examples.size());
  for (T& example : examples) values.push_back(std::get<I>(std::move(example)));
  return Collate<std::tuple_element_t<I, T>>::of(std::move(values));
}
}  // namespace detail

template <class... T>
struct Collate<std::tuple<T...>> {
  /// Tuples, as a tuple of batches.
  static auto of(std::vector<std::tuple<T...>> examples) { return all(examples, std::index_sequence_for<T...>()); }

 private:
  template <std::size_t... I>
  static auto all(std::vector<std::tuple<T...>>& examples, std::index_sequence<I...>) {
    return std::tuple<detail::BatchOf<T>...>{detail::column<I>(examples)...};
  }
};

template <class A, class B>
struct Collate<std::pair<A, B>> {
  /// Pairs, as a pair of batches.
  static auto of(std::vector<std::pair<A, B>> examples) {
    return std::pair<detail::BatchOf<A>, detail::BatchOf<B>>{detail::column<0>(examples), detail::column<1>(examples)};
  }
};

template <class T, std::size_t N>
struct Collate<std::array<T, N>> {
  /// Arrays, as an array of batches: one of all first elements, one of all second ones.
  static auto of(std::vector<std::array<T, N>> examples) { return all(examples, std::make_index_sequence<N>()); }

 private:
  template <std::size_t... I>
  static auto all(std::vector<std::array<T, N>>& examples, std::index_sequence<I...>) {
    return std::array<detail::BatchOf<T>, N>{detail::column<I>(examples)...};
  }
};

/// The batch of these examples.
template <class T>
detail::BatchOf<T> collate(std::vector<T> examples) {
  return Collate<T>::of(std::move(examples));
}

/// CPU tensors get a copy in page-locked memory, which a device can read beside its work (`to(device, true)`); without
/// a CUDA device they stay as they are. Tensors in tuples, pairs, arrays and vectors too; other values are left alone.
void pin(Tensor& tensor);
template <class T>
void pin(T& batch);

namespace detail {
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
}  // namespace detail

template <class T>
void pin(T& batch) {
  if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([](auto&... parts) { (pin(parts), ...); }, batch);
  } else if constexpr (detail::is_vector<T> && !std::same_as<T, std::vector<bool>>) {
    for (auto& part : batch) pin(part);
  }
}

}  // namespace tendril::data

TENDRIL_API_END
