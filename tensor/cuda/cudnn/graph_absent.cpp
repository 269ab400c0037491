#include "tendril/tensor/cuda/cudnn/graph.h"
#include "tendril/tensor/error.h"

/// Stands in for cuDNN's graphs where cudnn-frontend was not found.
namespace tendril::cuda {

bool has_plan(const AttentionGraph&) { return false; }
// Never called: there is no plan.
void attend(const AttentionGraph&, const View&, const View&, const View&, const View&, const View&) {}
void attend_backward(const AttentionGraph&, const View&, const View&, const View&, const View&, const View&,
                     const View&, const View&, const View&, const View&) {}
bool convolve_by_graph(const Conv&, const View*, bool) { return false; }
std::string why_not(const AttentionGraph&, const AbsentDevice&) { return "built without cudnn-frontend"; }
std::string why_not(const Conv&, const View*, bool, const AbsentDevice&) { return "built without cudnn-frontend"; }

}  // namespace tendril::cuda
