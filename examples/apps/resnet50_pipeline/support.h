#pragma once

/// The supporting code of the pipeline application.
#include "../support/device.h"
#include "../support/main.h"
#include "batches.h"
#include "options.h"
