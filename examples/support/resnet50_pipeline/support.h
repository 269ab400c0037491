#pragma once

/// All that the pipeline example has beside its lesson.
#include "../device.h"
#include "../main.h"
#include "batches.h"
#include "options.h"
