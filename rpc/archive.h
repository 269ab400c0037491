#pragma once

/// What can be sent: numbers, enums, std::string, vector, array, list, deque, set, map, unordered_set, unordered_map,
/// pair, tuple, optional, variant, chrono::duration, Tensor, StateDict, RRef<T> (rref.h), and classes with
/// Boost.Serialization's
///
///     template <class Archive> void serialize(Archive& archive, unsigned version) { archive & first & second; }
///
/// as a member (public, or private with `friend class boost::serialization::access`) or as a free function; split into
/// `save` and `load` with Boost's macros or not. All of them inside each other. Classes must be default-constructible:
/// the compiler says so where one is not, or has no `serialize`.
///
/// Unlike Boost's own archives these track no objects, send no class names or versions (the version is always 0) and
/// know no polymorphism: pointers do not compile. Numbers are sent in their own width, little-endian; `long` and
/// `std::size_t` as the 8 bytes they are on every supported platform.

#include "tendril/rpc/wire/archive/containers.h"
#include "tendril/rpc/wire/archive/input.h"
#include "tendril/rpc/wire/archive/output.h"
#include "tendril/rpc/wire/archive/serializer.h"
#include "tendril/rpc/wire/archive/state_dict.h"
#include "tendril/rpc/wire/archive/vocabulary.h"
