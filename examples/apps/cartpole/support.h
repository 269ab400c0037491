#pragma once

/// The supporting code of the CartPole application.
#include "../support/device.h"
#include "../support/main.h"
#include "latency.h"
#include "options.h"
#include "report.h"
#include "show.h"
