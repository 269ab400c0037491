#pragma once

#include "options.h"

namespace language_model {

/// --world-size 1: the same training in one process, without RPC, which can be stopped and goes on. With a text the
/// learning rate is divided by four when an epoch did not help with what is kept aside, as in PyTorch's
/// word_language_model.
void run_alone(Options options);

}  // namespace language_model
