#pragma once

/// Can be sent, but not received: nothing makes one without an argument.
struct Depth {
  explicit Depth(int d) : depth(d) {}
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& depth;
  }
  int depth;
};
