#pragma once

/// Types that can be sent: numbers, enums, std::string, vector, array, list, deque, set, map, unordered_set,
/// unordered_map, pair, tuple, optional, variant, chrono::duration, Tensor, StateDict, RRef<T> (rref.h), and classes
/// with Boost.Serialization's
///
///     template <class Archive> void serialize(Archive& archive, unsigned version) { archive & first & second; }
///
/// as a member (public, or private with `friend class boost::serialization::access`) or as a free function. Boost's
/// macros that split it into `save` and `load` work too. These types may be nested. Classes must be
/// default-constructible. A class that is not, or that has no `serialize`, is a compile-time error.
///
/// Unlike Boost's archives, these do not track objects, send no class names or versions (the version is always 0), and
/// do not support polymorphism: pointers do not compile. Numbers are sent little-endian in their own width; `long` and
/// `std::size_t` take 8 bytes, as on every supported platform.

#include "tendril/rpc/wire/archive/containers.h"
#include "tendril/rpc/wire/archive/input.h"
#include "tendril/rpc/wire/archive/output.h"
#include "tendril/rpc/wire/archive/serializer.h"
#include "tendril/rpc/wire/archive/state_dict.h"
#include "tendril/rpc/wire/archive/vocabulary.h"
