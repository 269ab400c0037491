#pragma once

/// All that the CartPole example has beside its lesson.
#include "../device.h"
#include "../latency.h"
#include "../main.h"
#include "options.h"
#include "report.h"
#include "show.h"
