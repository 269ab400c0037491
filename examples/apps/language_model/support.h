#pragma once

/// The supporting code of the language model application.
#include "../support/device.h"
#include "../support/main.h"
#include "options.h"
#include "run.h"
