import '@preact/signals';
import { render } from 'preact';
import { App } from './app';
import { preferred, speak } from './i18n';
import './style/main.css';

void speak(preferred()).then(() => render(<App />, document.getElementById('app')!));
