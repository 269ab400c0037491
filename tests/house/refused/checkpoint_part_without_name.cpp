// expected: a part is a variable that loading changes
#include "tendril/nn/checkpoint.h"

int main() { const tendril::nn::CheckpointParts parts = {{"step", 3}}; }
