#pragma once

#include <boost/core/nvp.hpp>
#include <boost/serialization/access.hpp>
#include <boost/serialization/split_member.hpp>
#include <memory>
#include <type_traits>

#include "tendril/rpc/wire/archive/input.h"
#include "tendril/rpc/wire/archive/output.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace boost::serialization {
template <class T>
class array_wrapper;  // its header is slow to compile; users of make_array include it
struct tendril_lookup;
}  // namespace boost::serialization

namespace tendril::rpc {
namespace detail {

/// The class version passed to `serialize` functions. The template argument makes argument-dependent lookup find an
/// unqualified `serialize(archive, value, version)` in namespace boost::serialization, as users expect. (`access`
/// itself cannot be used: it befriends a `serialize` that matches every class and is defined nowhere.)
template <class = boost::serialization::tendril_lookup>
struct ClassVersion {
  operator unsigned() const noexcept { return 0; }
};

template <class Archive, class T>
concept HasFreeSerialize = requires(Archive& archive, T& value) {
  serialize(archive, value, ClassVersion<>{});
};

/// Makes the name `serialize` ambiguous in TwiceSerialize if T or a base of it has a member of that name, even a
/// private one.
struct HasSerialize {
  void serialize();
};
template <class T>
struct TwiceSerialize : T, HasSerialize {};
template <class T>
concept HasMemberSerialize = std::is_final_v<T> || !requires {
  &TwiceSerialize<T>::serialize;
};

template <class Archive, class T>
void serialize_class(Archive& archive, T& value) {
  const typename Archive::Nested nested(archive);
  if constexpr (HasFreeSerialize<Archive, T>) {
    serialize(archive, value, ClassVersion<>{});
  } else if constexpr (!HasMemberSerialize<T>) {
    static_assert(
        HasMemberSerialize<T>,
        "this class cannot be sent to another worker because it is not serializable: give it `template <class Archive> "
        "void serialize(Archive& archive, unsigned version)`, as a member or as a free function in its namespace, or "
        "send an RRef to an object that stays where it is");
  } else {
    boost::serialization::access::serialize(archive, value, 0u);  // T::serialize, which may be private
  }
}

template <class T>
inline constexpr bool is_pointer_like =
    std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>;
template <class T>
inline constexpr bool is_pointer_like<std::shared_ptr<T>> = true;
template <class T>
inline constexpr bool is_pointer_like<std::weak_ptr<T>> = true;
template <class T, class D>
inline constexpr bool is_pointer_like<std::unique_ptr<T, D>> = true;

}  // namespace detail

/// Numbers in their native representation (two's complement, IEEE 754), little-endian; enums as their underlying type;
/// classes by their `serialize(Archive&, unsigned)`, a member or a free function, split into save and load or not.
template <class T, class>
struct Serializer {
  static_assert(!detail::is_pointer_like<T>,
                "pointers cannot be sent to another worker: send the value, or an RRef to an object that stays here");
  static_assert(!std::is_reference_v<T> && !std::is_function_v<T> && !std::is_union_v<T> && !std::is_array_v<T>,
                "only values can be sent: no references, functions, unions or C arrays (use std::array)");
  static_assert(!std::is_same_v<T, long double> && !std::is_same_v<T, wchar_t>,
                "long double and wchar_t differ between machines and cannot be sent");

  static void save(OutputArchive& archive, const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      archive.number(static_cast<uint8_t>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      archive.number(value);
    } else if constexpr (std::is_enum_v<T>) {
      archive << static_cast<std::underlying_type_t<T>>(value);
    } else {
      detail::serialize_class(archive, const_cast<T&>(value));  // serialize() serves both directions and takes a T&
    }
  }

  static void load(InputArchive& archive, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = archive.number<uint8_t>();
      if (byte > 1) archive.fail("a bool that is neither 0 nor 1");
      value = byte != 0;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = archive.number<T>();
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number;
      archive >> number;
      value = static_cast<T>(number);
    } else {
      detail::serialize_class(archive, value);
    }
  }
};

/// `boost::serialization::make_nvp(name, x)`; the name is not sent.
template <class T>
struct Serializer<boost::serialization::nvp<T>> {
  static void save(OutputArchive& archive, const boost::serialization::nvp<T>& pair) { archive << pair.const_value(); }
  static void load(InputArchive& archive, const boost::serialization::nvp<T>& pair) { archive >> pair.value(); }
};

/// `boost::serialization::make_array(pointer, count)`; the elements are sent, but not the count.
template <class T>
struct Serializer<boost::serialization::array_wrapper<T>> {
  template <class Wrapper>
  static void save(OutputArchive& archive, const Wrapper& array) {
    for (std::size_t i = 0; i < array.count(); ++i) archive << array.address()[i];
  }
  template <class Wrapper>
  static void load(InputArchive& archive, const Wrapper& array) {
    for (std::size_t i = 0; i < array.count(); ++i) archive >> array.address()[i];
  }
};

template <>
struct Serializer<Tensor> {
  static void save(OutputArchive& archive, const Tensor& tensor) { archive.tensor(tensor); }
  static void load(InputArchive& archive, Tensor& tensor) { tensor = archive.tensor(); }
};

}  // namespace tendril::rpc

TENDRIL_API_END
