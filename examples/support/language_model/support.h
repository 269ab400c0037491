#pragma once

/// All that the language model has beside its lesson.
#include "../device.h"
#include "../main.h"
#include "options.h"
#include "run.h"
