#pragma once

#include <dlfcn.h>

#include <cstdlib>

#include "tests/dist/collectives/members.h"
#include "tests/fake_nccl/fake_nccl.h"

namespace dist_test {

/// Makes Tendril load the fake NCCL library, TENDRIL_FAKE_NCCL.
struct WithFakeNccl {
  WithFakeNccl() {
    ::setenv("TENDRIL_NCCL_LIBRARY", TENDRIL_FAKE_NCCL, 1);
    void* const library = ::dlopen(TENDRIL_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
    BOOST_TEST_REQUIRE(library != nullptr);
    fake = reinterpret_cast<FakeNccl* (*)()>(::dlsym(library, "fake_nccl"))();
    fake->made = fake->ended = 0;
  }
  ~WithFakeNccl() {
    BOOST_TEST(fake->made == fake->ended);
    fake->broken = fake->refusing = false;
    fake->current_device = [] { return 0; };
    ::unsetenv("TENDRIL_NCCL_LIBRARY");
  }
  WithFakeNccl(const WithFakeNccl&) = delete;
  WithFakeNccl& operator=(const WithFakeNccl&) = delete;

  FakeNccl* fake = nullptr;
};

}  // namespace dist_test
