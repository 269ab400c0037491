#pragma once

/// All that the language model has beside its lesson.
#include "../device.h"
#include "../main.h"
#include "local_model.h"
#include "options.h"
#include "other_model.h"
#include "run.h"
#include "shared_model.h"
