#include "tendril/rpc/threads/recycled.h"

#include <array>

namespace tendril::rpc::detail {

namespace {

constexpr std::size_t kStep = 64, kKinds = 17;  // kinds are multiples of kStep bytes, up to 1 KiB
constexpr int kMostKept = 64;                   // of each kind: about as many calls as programs have in flight at once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kRecycles = false;  // sanitizers must see every allocation and deallocation
#else
constexpr bool kRecycles = true;
#endif

struct Piece {
  Piece* next;
};
/// This thread's free pieces. It has no destructor, so that it may be used for as long as the thread runs.
struct Spare {
  struct Kind {
    Piece* first;
    int count;
  };
  std::array<Kind, kKinds> kinds;
  int most_kept;  // of each kind; 0 before AtThreadEnd exists, and from stop_keeping() on
  bool ended;
};
constinit thread_local Spare spare{};

/// Frees the pieces that this thread has kept. The thread keeps no more until `ended` is reset.
void stop_keeping() noexcept {
  spare.ended = true;
  spare.most_kept = 0;
  for (Spare::Kind& kind : spare.kinds) {
    while (Piece* const piece = kind.first) {
      kind.first = piece->next;
      ::operator delete(piece);
    }
    kind.count = 0;
  }
}

struct AtThreadEnd {
  ~AtThreadEnd() { stop_keeping(); }
};

/// Called when the thread, which keeps no pieces so far, frees one. Returns false if the thread must not keep any.
[[gnu::noinline]] bool register_thread_exit() noexcept {
  if (spare.ended) return false;
  thread_local AtThreadEnd watch;
  (void)&watch;
  spare.most_kept = kMostKept;
  return true;
}

std::size_t kind_of(std::size_t bytes) noexcept { return (bytes + kStep - 1) / kStep; }

}  // namespace

void* take_recycled(std::size_t bytes) {
  const std::size_t at = kind_of(bytes);
  if (!kRecycles || at >= kKinds) return ::operator new(bytes);
  Spare::Kind& kind = spare.kinds[at];
  if (Piece* const piece = kind.first) {
    kind.first = piece->next;
    --kind.count;
    return piece;
  }
  return ::operator new(at* kStep);
}

void give_recycled(void* piece, std::size_t bytes) noexcept {
  const std::size_t at = kind_of(bytes);
  if (!kRecycles || at >= kKinds) return ::operator delete(piece);
  if (spare.kinds[at].count >= spare.most_kept && (spare.most_kept > 0 || !register_thread_exit()))
    return ::operator delete(piece);
  Spare::Kind& kind = spare.kinds[at];
  kind.first = new (piece) Piece{kind.first};
  ++kind.count;
}

void recycle(bool on) noexcept {
  if (on) {
    spare.ended = false;
  } else {
    stop_keeping();
  }
}

}  // namespace tendril::rpc::detail
