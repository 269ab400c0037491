#pragma once

/// Says what a segmentation fault was about, before it ends the process as it would have.
namespace cuda_emulator {

void explain_faults();

/// While it lives, the thread executes queued work: its faults are a kernel's. It also gives the thread a stack to
/// tell of a fibre whose own has run over.
class Executing {
 public:
  Executing();
  ~Executing();
  Executing(const Executing&) = delete;
  Executing& operator=(const Executing&) = delete;
  static bool now();  ///< in this thread
};

}  // namespace cuda_emulator
