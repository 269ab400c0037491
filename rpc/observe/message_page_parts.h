#pragma once

namespace tendril::rpc::detail {

// The parts of a MessagePage that are the same on every page.
extern const char* const kMessagePageStyle;   ///< CSS
extern const char* const kMessagePageBody;    ///< HTML: the controls and the places that the script fills
extern const char* const kMessagePageScript;  ///< JavaScript, which follows the page's own

}  // namespace tendril::rpc::detail
